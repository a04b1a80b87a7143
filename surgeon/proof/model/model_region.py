"""A whole model as the region of strategies: its inputs, sizes on which it runs, likely differences from another."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np
from onnx import ModelProto

from surgeon.proof.cases.cache_limit import CacheLimit
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.model.distinguishing_inputs import DistinguishingInputs
from surgeon.proof.model.exposed_outputs import HELD_BYTES
from surgeon.proof.model.model_cost import ModelCost
from surgeon.proof.strategies.strategy import InputCase
from surgeon.runtime.inputs.consistent_sizes import ConsistentSizes
from surgeon.runtime.inputs.fill import Blank, Fill, Fills
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.runtime.inputs.input_spec import InputSpec
from surgeon.runtime.inputs.role_fills import usual_values
from surgeon.shapes.algebra.size_expressions import SizeError

Sizes = Mapping[str, int]
LARGER_WORK = 1 << 33  # of a run at larger sizes, in multiplications: some seconds on one core
ROOMY_WORK = 1 << 28  # of a run on more batches, so that several of these take no longer
BATCHES = 64  # in it: several rows for each number and each column
INDICES, RUNS = 256, 64  # indices of one run where their number is dynamic, and the most runs for the rows of a table
LONGER = 3  # added to each size: even ones become odd


class ModelRegion:
    """The facts of a model that strategies ask for; `first` are sizes on which it runs.

    dims: sizes that the user chose.  others: further usual sizes.  pair: numbers and tables by which another model may
    differ; theirs: its inputs.  Both are None if no other model is known.  limits: sizes that the other one refuses.
    """

    def __init__(
        self,
        original: Path | ModelProto,
        plan: InputGenerator,
        *,
        dims: Sizes,
        pair: DistinguishingInputs | None,
        theirs: InputGenerator | None,
        limits: Collection[CacheLimit] = (),
    ) -> None:
        self._original, self._plan, self._dims, self._theirs = original, plan, dims, theirs
        self._limits = limits
        self.pair, self.inputs = pair, plan.wants
        self._cost = ModelCost(original)
        self.first = self.at({})
        self.others: Sequence[Sizes] = ()
        self._held_per_byte = 0.0

    def start(self, feeds: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], sizes: Sizes) -> None:
        """Take the first inputs that the model accepts, and their sizes."""
        self.first = self.at(sizes)
        held, fed = (sum(array.nbytes for array in arrays.values()) for arrays in (outputs, feeds))
        self._held_per_byte = held / max(fed, 1)

    def at(self, sizes: Sizes) -> DimAssignment:
        """Sizes with the work of a run; with a batch of one if the other model runs only that."""
        for limit in self._limits:
            with suppress(SizeError):  # a size that the inputs do not have
                sizes = {**(limit.within(sizes, DimAssignment(sizes, {}).size) or sizes), **self._dims}
        made = DimAssignment(sizes, {})
        if sizes or not self._plan.free:
            shapes = {spec.name: np.broadcast_to(np.empty((), spec.dtype), spec.shape(sizes)) for spec in self.inputs}
            made.work = self._cost.of(shapes)
        return made

    def named(self, chosen: Callable[[InputSpec], bool]) -> list[str]:
        """The inputs for which this holds."""
        return [spec.name for spec in self.inputs if chosen(spec)]

    @property
    def floats(self) -> list[str]:
        """Floats that only arithmetic reads, without those whose name gives them a role."""
        return self.named(lambda spec: spec.takes_edge_values and spec.named is None)

    def elements(self, name: str) -> int:
        """The elements of an input at the first sizes."""
        return math.prod(next(spec for spec in self.inputs if spec.name == name).shape(self.first.by_symbol))

    def alike(self, chosen: Callable[[InputSpec], bool]) -> list[str]:
        """The inputs for which this holds in both models; none if one of them has another role in the other model.

        A plain number to one may be a loop count of the other.
        """
        ours = self.named(chosen)
        theirs = {spec.name for spec in self._theirs.wants if chosen(spec)} if self._theirs else set[str]()
        return ours if theirs.issuperset(ours) else []

    def case(self, fills: Fills, dims: DimAssignment | None = None) -> InputCase:
        """A case of the current strategy; by default at the first sizes."""
        return InputCase(self.first if dims is None else dims, fills, "")

    def each(
        self, names: Collection[str], fills: Iterable[Fill], dims: DimAssignment | None = None
    ) -> Iterator[InputCase]:
        """A case for each fill, in all of these inputs."""
        yield from (self.case(dict.fromkeys(names, fill), dims) for fill in fills if names)

    @property
    def numbers(self) -> Iterator[float]:
        """The integers of either model."""
        yield from chain(*self.pair.integers) if self.pair else ()

    @property
    def roomy(self) -> DimAssignment:
        """The first sizes with more batches, so that numbers reach each column, if that is cheap."""
        sizes = self.first.by_symbol
        batches = self._free("batch")
        larger = self.at({**sizes, **dict.fromkeys(batches, BATCHES)}) if batches else self.first
        return larger if larger.work <= ROOMY_WORK else self.first

    def _free(self, *kinds: str) -> list[str]:
        """The dynamic dims of these kinds that are not chosen."""
        return [key for key in self.first.by_symbol if key not in self._dims and self._plan.free[key].kind() in kinds]

    def odd_sizes(self) -> list[DimAssignment]:
        """The first sizes, longer by an odd number, and the other usual sizes."""
        first = self.first.by_symbol
        longer = {name: size if name in self._dims else size + LONGER for name, size in first.items()}
        return [self.at(sizes) for sizes in (longer, *self.others) if sizes != first]

    def long_sizes(self) -> Iterator[DimAssignment]:
        """Sizes of long sequences, the longest first."""
        sets = self._plan.long_sets(self._dims) if self.first.by_symbol else []
        for sizes in [*sets, *(ConsistentSizes(self._original, self._dims).of(sets) if sets else ())]:
            dims = self.at(sizes)
            if self._plan.has_room(sizes) and dims.work <= LARGER_WORK:
                yield dims

    def branch_sizes(self) -> Iterator[DimAssignment]:
        """Sizes that a model branches on, and the next ones, for all sequences, or for all other dims."""
        keys = self._free("sequence"), self._free("batch", "past", "other")
        found = [size + by for size in self.pair.sizes for by in (0, 1)] if self.pair else []
        for names in keys:
            for size in found if names else ():
                dims = self.at({**self.first.by_symbol, **dict.fromkeys(names, size)})
                if dims.work <= LARGER_WORK:
                    yield dims

    def table_lengths(self) -> Iterator[DimAssignment]:
        """Sizes with sequences as long as tables that differ and that no input indexes."""
        pair, names = self.pair, self._free("sequence")
        fed = {pair.rows_of(spec) for spec in self.inputs} if pair else set[int]()
        for rows in sorted({*pair.tables.values()} - fed) if pair and names else ():
            dims = self.at({**self.first.by_symbol, **dict.fromkeys(names, rows)})
            if self._is_cheap(dims, 1):
                yield dims

    def lengths(self, every: Iterable[Sizes]) -> set[int]:
        """The lengths of sequences that ran."""
        names = self._free("sequence")
        return {sizes[name] for sizes in every for name in names if name in sizes}

    def table_rows(self) -> Iterator[tuple[Fills, DimAssignment]]:
        """Indices that visit all rows of tables that differ, if that is cheap and takes at most `RUNS` cases."""
        pair = self.pair
        rows = {spec.name: rows for spec in self.inputs if (rows := pair.rows_of(spec))} if pair else {}
        if not rows:
            return
        dims = self._enlarged(next(spec for spec in self.inputs if spec.name in rows))
        counts = {spec.name: max(math.prod(spec.shape(dims.by_symbol)), 1) for spec in self.inputs if spec.name in rows}
        runs = max(-(-rows[name] // count) for name, count in counts.items())
        for number in range(runs if runs <= RUNS and self._is_cheap(dims, runs) else 0):
            yield {name: _visiting(number * counts[name], rows[name]) for name in rows}, dims

    def _enlarged(self, spec: InputSpec) -> DimAssignment:
        """Sizes at which an input holds `INDICES` indices, if a dim of it is dynamic: by more batches if possible."""
        sizes = self.first.by_symbol
        free = [key for key in spec.dims if isinstance(key, str) and key in sizes]
        if not free:
            return self.first
        key = next((key for key in free if key in self._plan.free and self._plan.free[key].kind() == "batch"), free[0])
        beside = math.prod(spec.shape(sizes)) // max(sizes[key], 1)
        return self.at({**sizes, key: max(-(-INDICES // max(beside, 1)), sizes[key])})

    def _is_cheap(self, dims: DimAssignment, runs: int) -> bool:
        """Whether so many runs take at most `LARGER_WORK`, and their outputs fit in memory."""
        fed = sum(math.prod(spec.shape(dims.by_symbol)) * spec.dtype.itemsize for spec in self.inputs)
        return runs * dims.work <= LARGER_WORK and runs * fed * self._held_per_byte <= HELD_BYTES

    def deciding(self, case: int, dims: DimAssignment) -> dict[str, Fill]:
        """Numbers at which a model decides among usual ones, other numbers in each case; empty after the last."""
        made: dict[str, Fill] = {}
        for spec in self.inputs:
            blank = Blank(spec, spec.shape(dims.by_symbol), dims.by_symbol, np.random.default_rng(case))
            if self.pair and (numbers := self.pair.numbers(blank, case)):
                made[spec.name] = _with_numbers(numbers)
        return made


def _visiting(first: int, rows: int) -> Fill:
    return Fill("rows in turn", lambda blank: ((first + np.arange(math.prod(blank.shape))) % rows).reshape(blank.shape))


def _with_numbers(numbers: Sequence[float]) -> Fill:
    """Usual values with these numbers at random places."""

    def make(blank: Blank) -> np.ndarray:
        made = np.array(usual_values(blank)).astype(blank.spec.dtype)
        flat = made.reshape(-1)
        flat[blank.random.permutation(flat.size)[: len(numbers)]] = numbers
        return flat.reshape(blank.shape)

    return Fill("numbers that decide", make, may_overflow=True, decides=True)
