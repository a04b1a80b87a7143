"""The inputs of a proof case, analysed: the values of each, and the literals and thresholds of both sides."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property

import numpy as np
from onnx import ModelProto

from surgeon.analysis.decisions.thresholds import edges_of, region_literals
from surgeon.analysis.input_dependence import counts
from surgeon.ir.index import Index
from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.op_traits import OpTraits, Slots
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.proof.cases.counts import MAX_REPEATED, countable, each_count, numbers_for
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.literal_injection import (
    LITERAL_LIMITS,
    ROOM,
    Feeds,
    LiteralValues,
    injections_needed,
    literal_values,
)
from surgeon.proof.proof_case import ProofCase
from surgeon.runtime.inputs.input_generator import InputGenerator
from surgeon.runtime.inputs.input_spec import InputSpec
from surgeon.runtime.inputs.string_values import vocabulary
from surgeon.shapes.algebra.size_expressions import SizeError, is_total
from surgeon.shapes.constraints.input_dims import dim_kind

_MAX_OUT_OF_ROLE = 4  # cases of literals out of role: the original rejects most of these


class CaseInputs:
    """The inputs of one case.

    specs: all inputs that get values, weights too.  plain: float inputs without a special role, by name.  beside: those
    that no softmax depends on.  positions: those that positions depend on.

    Raises InputsUnknown for inputs that cannot be generated.
    """

    def __init__(self, case: ProofCase) -> None:
        self._case, sides = case, case.models
        assumed = {item.name: item.assumption for item in case.inputs if item.assumption is not None}
        self._plan = InputGenerator(sides.before, names=False, bare=case.shape_only_inputs, assumed=assumed)
        self._plan.speak(vocabulary(sides.after))
        self.specs, self.plain = self._plan.wants, self._plan.edged
        self.weights = frozenset(item.name for item in case.inputs if item.weight)
        self.beside = inputs_beside_softmax(sides.before)
        self.positions = position_inputs(sides.before) | position_inputs(sides.after)
        replacement = {
            f"/{name}": numbers for name, numbers in region_literals(sides.after).items() if name.startswith("/")
        }
        self._replacement_only = replacement.keys()  # constants from attributes of the replacement
        self._constants = region_literals(sides.before) | replacement
        indexes = map(Index.over, (sides.before, sides.after))
        self._edges = list(dict.fromkeys(edge for index in indexes for edge in edges_of(index)))
        self._countable = countable(self.specs)

    def model_sizes(self, assignment: DimAssignment) -> Mapping[str, int]:
        """The sizes of a run by the names of the models' dims."""
        found: dict[str, int] = {}
        for text, size in self._case.models.dims.items():
            with suppress(SizeError):  # only a size of a table, which has no rows then
                found[text] = assignment.size(size)
        return found

    def obeying(self, feeds: Feeds) -> Feeds:
        """Inputs with other elements in place of those that violate the proof's assumptions."""
        return self._plan.obeying(feeds)

    def shape_only(self, sizes: Mapping[str, int]) -> Feeds:
        """Zeros for the inputs of which only the shape is read."""
        return self._plan.shape_only(sizes)

    def sized_values(self, assignment: DimAssignment, feeds: Feeds) -> Feeds:
        """The inputs that depend only on sizes."""
        return {
            item.name: assignment.value(item.value, feeds[item.name].dtype)
            for item in self._case.inputs
            if item.value is not None
        }

    @property
    def numbers(self) -> Iterator[float]:
        """The scalars of both sides."""
        yield from (float(number) for numbers in self._constants.values() for number in numbers)

    def literals(self, *, ties: bool, most: float) -> LiteralValues:
        """The numbers to put into inputs: literals of both sides and thresholds, up to a magnitude of `most`.

        None of them turns inputs into a kind for which the rule means to differ.
        """
        intended = self._case.intended_differences
        largest = next((limit for kind, limit in LITERAL_LIMITS if kind in intended), np.inf)
        return literal_values(
            self._constants,
            self._edges,
            small=self._counts.union(self._case.replacement_only, self._replacement_only),
            most=min(most, largest),
            half=any(spec.half for spec in self.specs),
            ties=ties,
        )

    @cached_property
    def _counts(self) -> frozenset[str]:
        """Constants that are counts, indices or sizes, not operands of arithmetic."""
        return counts(self._case.models.before)

    def literal_cases(self, assignment: DimAssignment, *, out_of_role: bool) -> int:
        """The approximate number of cases until each input has held all literals."""
        wanted = [spec for spec in self.specs if (spec.may_ignore_role if out_of_role else spec.is_unconstrained)]
        if out_of_role and not wanted:
            return 0
        sizes = self.model_sizes(assignment)
        least = min((math.prod(spec.shape(sizes)) for spec in wanted), default=ROOM)
        needed = injections_needed(self._constants, len(self._edges), least)
        return min(needed, _MAX_OUT_OF_ROLE) if out_of_role else needed

    def count_arrays(self, assignment: DimAssignment) -> Iterator[Feeds]:
        """The inputs that are counts, with one number at one place in each; sizes of the run come first."""
        yield from self.sized_counts(assignment)
        numbers = numbers_for(self.numbers, assignment.dims.values(), assignment.elements)
        yield from each_count(self._countable, self.model_sizes(assignment), numbers)

    def sized_counts(self, assignment: DimAssignment) -> Iterator[Feeds]:
        """The same with the longest size of the run, and an index that counts from its end, unless that makes much."""
        longest = max(assignment.dims.values(), default=1)
        if assignment.elements * longest <= MAX_REPEATED:
            yield from each_count(self._countable, self.model_sizes(assignment), [longest, -(longest // 2)])

    @cached_property
    def _totals(self) -> list[InputSpec]:
        """Lengths that may count past and new rows; empty if the region does not have both."""
        kinds = {dim_kind(name) for name in self._case.free if not is_total(name)}
        has_cache = {"past", "sequence"} <= kinds
        return [spec for spec in self.specs if has_cache and not spec.is_unconstrained and _counts_rows(spec)]

    def cached_lengths(self, assignment: DimAssignment, random: np.random.Generator) -> Feeds:
        """Lengths that count past and new rows: a scalar counts all, an element of a vector ends its own sequence.

        Empty without such.
        """
        sizes = {name: size for name, size in assignment.by_symbol.items() if not is_total(name)}
        past, new = (sum(sizes[name] for name in sizes if dim_kind(name) == kind) for kind in ("past", "sequence"))
        made: Feeds = {}
        for spec in self._totals if past and new else ():
            shape = spec.shape(self.model_sizes(assignment))
            last = random.integers(new - 1, past + new, shape) if shape else np.asarray(past + new)
            last.reshape(-1)[:1] = past + new - bool(shape)
            made[spec.name] = last.astype(spec.dtype)
        return made


def _counts_rows(spec: InputSpec) -> bool:
    """Whether an input is a length, or the index of the last row, as GroupQueryAttention takes it of each sequence."""
    return spec.kind == "lengths" or (spec.kind == "indices" and spec.role.flags & {"beyond", "lookup"} == {"beyond"})


def inputs_beside_softmax(model: ModelProto) -> frozenset[str]:
    """The inputs of a graph that no softmax depends on, such as the values of an attention; empty without a softmax."""
    hanging: set[str] = set()
    for node in reversed(model.graph.node):  # topologically sorted
        values = _beside(traits_of(qualified_name(node.domain, node.op_type)))
        if not hanging.isdisjoint(node.output):
            hanging.update(node.input)
        elif values is not None:
            hanging.update(name for place, name in enumerate(node.input) if place not in values)
    return frozenset(port.name for port in model.graph.input if port.name not in hanging) if hanging else frozenset()


def position_inputs(model: ModelProto) -> frozenset[str]:
    """The inputs of a graph that float positions depend on, at which a node reads."""
    found: set[str] = set()
    for node in reversed(model.graph.node):  # topologically sorted
        known = traits_of(qualified_name(node.domain, node.op_type))
        if not found.isdisjoint(node.output):
            found.update(node.input[known.shape.reads_only_shape :])
        found.update(name for slot in known.indexing.positions for name in node.input[slot : slot + 1])
    return frozenset(port.name for port in model.graph.input if port.name in found)


def _beside(known: OpTraits) -> Slots | None:
    """The inputs of an operator that the softmax in it does not depend on; None for operators without a softmax."""
    if known.products.attention_inputs is not None:
        return [
            slot
            for slot in (known.products.attention_inputs.value, known.products.attention_inputs.past_value)
            if slot is not None
        ]
    return () if known.numerics.is_softmax else None
