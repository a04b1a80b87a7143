"""The facts of a region that strategies use, and how they put fills into cases."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import numpy as np

from surgeon.proof.cases.case_inputs import CaseInputs
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.dims import REDUCE_ABOVE_ELEMENTS, CaseDims
from surgeon.proof.cases.literal_injection import LARGE_LITERAL, ROOMY_LITERAL, inject_into
from surgeon.proof.cases.region_traits import region_traits
from surgeon.proof.proof_case import ProofCase
from surgeon.proof.strategies.size_facts import SizeFacts
from surgeon.proof.strategies.strategy import AnsweredCases, InputCase, Rows
from surgeon.runtime.inputs.fill import Blank, Fill, Fills
from surgeon.runtime.inputs.input_spec import InputSpec
from surgeon.runtime.inputs.role_fills import count_at_a_place, near_end, usual_values


class CaseRegion:
    """The region of a proof case, at sizes on which its original runs.

    inputs: of the case, analysed.  dims: those of the case.
    """

    def __init__(
        self, case: ProofCase, inputs: CaseInputs, dims: CaseDims, first: DimAssignment, *, rows: Rows
    ) -> None:
        self.proof_case, self.first, self.rows = case, first, rows
        self._facts = inputs
        self.sizes = SizeFacts(case, dims, first, self.at_size)
        self._sizes_before = 0  # so that each has other literals
        self._longest_counted = max(first.dims.values(), default=0)
        self.traits = region_traits(case)
        self.weights: Sequence[InputSpec] = [spec for spec in inputs.specs if spec.name in inputs.weights]
        self.inputs: Sequence[InputSpec] = [spec for spec in inputs.specs if spec.name not in inputs.weights]
        self.floats = [spec.name for spec in self.inputs if spec.takes_edge_values]
        self.beside_softmax = [name for name in self.floats if name in inputs.beside]

    @property
    def is_member(self) -> bool:
        """Whether the class of the region is proved in full."""
        return self.proof_case.is_brief

    @property
    def is_elementwise(self) -> bool:
        """Whether a row is one element."""
        sizes = self._facts.model_sizes(self.rows.dims)
        shapes = [spec.shape(sizes) for spec in self.inputs if spec.is_unconstrained]
        largest = max(shapes, key=lambda shape: int(np.prod(shape)), default=())
        try:
            is_common = np.broadcast_shapes(*shapes) == largest
        except ValueError:
            return False
        return is_common and self.rows.number == int(np.prod(largest)) > 1

    @property
    def roomy(self) -> DimAssignment:
        """Sizes of many elements; if a row is one element, the raised sizes for more rows."""
        return self.rows.dims if self.is_elementwise else self.first

    def elements_of(self, name: str, dims: DimAssignment) -> int:
        """The elements of an input at these sizes."""
        spec = next(spec for spec in self.inputs if spec.name == name)
        return int(np.prod(spec.shape(self._facts.model_sizes(dims))))

    def allows(self, fills: Fills) -> bool:
        """Whether the rule differs on purpose for none of these fills."""
        intended = self.proof_case.intended_differences
        return bool(fills) and all(intended.isdisjoint(fill.kinds) for fill in fills.values())

    def _suited(self, fills: Fills) -> Fills:
        """These fills without NaN and infinity in positions, which kernels turn into arbitrary integers."""
        if self._facts.positions.isdisjoint(fills):
            return fills
        odd = [name for name in self._facts.positions if name in fills and "non_finite" in fills[name].kinds]
        return {name: fill for name, fill in fills.items() if name not in odd}

    def case(self, fills: Fills, dims: DimAssignment | None = None) -> InputCase:
        """A case of the current strategy; by default at the first sizes."""
        return InputCase(self.first if dims is None else dims, fills, "")

    def single(self, each: Iterable[Fills], dims: DimAssignment | None = None) -> Iterator[InputCase]:
        """A case for each of these, unless the rule differs for it on purpose; by default at the first sizes."""
        yield from (self.case(fills, dims) for fills in map(self._suited, each) if self.allows(fills))

    def packed(self, each: Iterable[Fills]) -> Iterator[InputCase]:
        """Cases that hold other fills in each row, or one case for each of them if rows mix.

        Fills of inputs without rows are further cases, after the packed ones.
        """
        allowed = [fills for fills in map(self._suited, each) if self.allows(fills)]
        fitting = [fills for fills in allowed if fills.keys() <= self.rows.inputs] if self.rows.number > 1 else []
        waiting = iter(fitting)
        while chunk := tuple(islice(waiting, self.rows.number)):
            yield InputCase(self.rows.dims, {}, "", rows=chunk, row_count=self.rows.number)
        yield from (self.case(fills) for fills in allowed if not any(fills is other for other in fitting))

    def for_all(self, names: Collection[str], fills: Iterable[Fill]) -> Iterator[Fills]:
        """Each fill in all of these inputs at once."""
        yield from (dict.fromkeys(names, fill) for fill in fills if names)

    def each_alone(self, names: Collection[str], fills: Sequence[Fill]) -> Iterator[Fills]:
        """Each fill in one of these inputs while the others are usual; the first fill of each input comes first."""
        yield from ({name: fill} for fill in fills for name in names)

    def literals(self, number: int, *, ties: bool = False, out_of_role: bool = False, most: float = np.inf) -> Fills:
        """Literals of both sides and thresholds, put into usual inputs; further ones at each number.

        most: the largest magnitude.
        """
        facts = self._facts
        values = facts.literals(ties=ties, most=min(most, LARGE_LITERAL) if out_of_role else most)

        def make(blank: Blank, place: int) -> np.ndarray:
            usual = usual_values(blank).astype(blank.spec.dtype)
            return inject_into(
                usual, blank.spec, values, blank.random, place=place, number=number, ties=ties, out_of_role=out_of_role
            )

        return {
            spec.name: Fill("literals", partial(make, place=place), may_not_fit=out_of_role)
            for place, spec in enumerate(facts.specs)
            if spec.name not in facts.weights
            and spec.kind not in ("words", "coins", "condition")
            and (spec.may_ignore_role or not out_of_role)
        }

    def literal_cases(self, *, out_of_role: bool = False) -> int:
        """The approximate number of cases until each input has held all literals."""
        return self._facts.literal_cases(self.first, out_of_role=out_of_role)

    def counts(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Counts that are literals of the region, sizes of the run and longer ones, one at one position at a time."""
        return self._facts.count_arrays(self.first)

    def at_size(self, dims: DimAssignment) -> AnsweredCases:
        """The cases at other sizes; returns whether the original accepted them."""
        self._sizes_before += 1
        is_taken = False
        for fills in self._fills_at_size(dims, self._sizes_before):
            is_taken |= bool((yield self.case(fills, dims)))
            if not is_taken and dims.elements > REDUCE_ABOVE_ELEMENTS:
                break  # the nodes reject these sizes, not these values
        return is_taken

    def _fills_at_size(self, dims: DimAssignment, number: int) -> Iterator[Fills]:
        """Usual inputs with literals among them, then numbers that follow from the sizes."""
        longest = max(dims.dims.values(), default=0)
        yield self.literals(number, most=ROOMY_LITERAL)
        # As the k of a TopK that takes a whole axis.  Only a longer axis lets a count reach further than before.
        for arrays in self._facts.sized_counts(dims) if longest > self._longest_counted else ():
            self._longest_counted = longest
            yield {name: count_at_a_place(array) for name, array in arrays.items()}
        if lengths := self.cached_lengths(number, dims):
            yield {name: count_at_a_place(array) for name, array in lengths.items()}
        bytes_ = [spec for spec in self.inputs if spec.dtype.itemsize == 1 and spec.takes_large_integers]
        exact = 2 / np.finfo(np.float32).eps  # up to which float32 holds all integers, as sums of products of bytes
        summed = [spec.name for spec in bytes_ if longest * int(np.iinfo(spec.dtype).max) ** 2 > exact]
        for is_low in (False, True) if summed else ():
            yield dict.fromkeys(summed, near_end(is_low=is_low))

    def cached_lengths(self, number: int, dims: DimAssignment | None = None) -> Mapping[str, np.ndarray]:
        """Lengths that count past and new rows, by default at the first sizes; others at each number."""
        random = np.random.default_rng([self.proof_case.options.seed, number])
        return self._facts.cached_lengths(self.first if dims is None else dims, random)

    @property
    def numbers(self) -> Iterator[float]:
        """The scalars of both sides."""
        return self._facts.numbers
