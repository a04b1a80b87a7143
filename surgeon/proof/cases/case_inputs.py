"""Inputs for both sides of a case: at any sizes, of any kind, with the literals of the region put into them."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from surgeon.proof.cases.counts import MAX_TURNS, count, countable, numbers_for, turns_of
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.literal_injection import (
    LARGE_LITERAL,
    LITERAL_LIMITS,
    ROOMY_LITERAL,
    Feeds,
    inject_equal_values,
    inject_literals,
    injections_needed,
    nan_first,
    with_zeros,
)
from surgeon.proof.cases.value_strategies import (
    BESIDE_BITS,
    BESIDE_USUAL,
    COUNTED,
    EQUAL_VALUES_VARIANT,
    FULL_SCHEDULE,
    HIDES_ALONE,
    LITERALS_OUT_OF_ROLE,
    LITERALS_VARIANT,
    MAX_OUT_OF_ROLE,
    NAN_FIRST,
    ROOM,
    TIES_VARIANT,
    VARIANT_STRIDE,
    ZEROS_BESIDE,
    chooses,
    is_worth_trying,
    kind_name,
)
from surgeon.proof.proof_case import ProofCase
from surgeon.runtime.inputs.input_generator import InputGenerator, ValueKind
from surgeon.runtime.inputs.input_spec import MASKED_KINDS, OVERFLOWING, InputSpec
from surgeon.runtime.inputs.mask_values import WAYS_TO_HIDE, hides_endlessly
from surgeon.runtime.inputs.string_values import vocabulary
from surgeon.shapes.algebra.size_expressions import SizeError
from surgeon.shapes.constraints.input_dims import dim_kind, is_total

_MAX_WORDS = 100  # turns for strings of the region; an input of few elements holds one or two in a turn
MAX_REPEATED = 1 << 22  # elements of all inputs, each repeated by the longest size
SIZED = COUNTED + MAX_TURNS  # the first turn of counts that are sizes of the run
_COMBINED = [item for item in FULL_SCHEDULE if item[0] is ValueKind.USUAL]  # turns that combine conditions


class CaseInputs:
    """Makes the inputs of one case.

    plain: float inputs without a special role, by name.  Raises InputsUnknown for inputs that cannot be made.
    """

    def __init__(self, case: ProofCase) -> None:
        sides = case.models
        self._case, self._seed, self._intended = case, case.options.seed, case.intended_differences
        self._plan = InputGenerator(sides.before, names=False, bare=case.shape_only_inputs)
        self.plain = self._plan.edged
        self.weights = frozenset(item.name for item in case.inputs if item.weight)
        self.beside = inputs_beside_softmax(sides.before)
        self._made: dict[frozenset[tuple[int, int]], Feeds] = {}  # weights, by the reduced dims
        replacement = {
            f"/{name}": numbers for name, numbers in region_literals(sides.after).items() if name.startswith("/")
        }
        self._replacement_only = replacement.keys()  # constants from attributes of the replacement
        self.constants = region_literals(sides.before) | replacement
        indexes = map(Index.over, (sides.before, sides.after))
        self.edges = list(dict.fromkeys(edge for index in indexes for edge in edges_of(index)))
        self._plan.speak(vocabulary(sides.after))
        self._countable = countable(self._plan.wants)

    def is_informative(self, values: ValueKind, turn: int) -> bool:
        """Whether inputs of a kind can show a fault of this region."""
        if self._is_beside_alone(values):
            is_apart = values is ValueKind.UNIFORM_LARGE and self._benign_scores
            return not is_apart and not self.beside.isdisjoint(self._plan.edged)
        if values is ValueKind.HIDDEN_ROWS and turn >= HIDES_ALONE and self._hiding_alone(turn) is None:
            return False
        if (
            values is ValueKind.NON_FINITE
            and turn in BESIDE_BITS
            and (self.beside or not self._among(turn, BESIDE_BITS))
        ):
            return False
        if values is ValueKind.NON_FINITE and turn in BESIDE_USUAL:
            decides = chooses(self._case.ops) and self._among(turn, BESIDE_USUAL)
            return bool(decides) and is_worth_trying(self._plan, values, self._seed + turn, self._intended)
        if values is ValueKind.ZEROS and turn and not self._among(turn, ZEROS_BESIDE):
            return False
        if values is ValueKind.COUNTS and self._totals:
            return True
        if values is ValueKind.COUNTS and turn >= COUNTED and not self._countable:
            return False
        return is_worth_trying(self._plan, values, self._seed + turn, self._intended)

    def more(self, assignment: DimAssignment) -> list[tuple[ValueKind, int]]:
        """More turns, to combine conditions and to use all literals of the region."""
        turns = max(self._plan.seeds() if self._plan.conditions else 0, min(self._plan.words, _MAX_WORDS))
        combined = range(len(_COMBINED), turns)
        return [
            *((ValueKind.USUAL, turn) for turn in combined),
            *self._literal_variants(assignment),
            *self._turns_counted(assignment, COUNTED),
        ]

    def counts_sized(self, assignment: DimAssignment) -> Iterator[tuple[ValueKind, int]]:
        """Turns for counts that are sizes of the run."""
        return self._turns_counted(assignment, SIZED)

    def _turns_counted(self, assignment: DimAssignment, first: int) -> Iterator[tuple[ValueKind, int]]:
        turns = turns_of(self._countable, self.model_sizes(assignment), self._counted(assignment, first))
        yield from ((ValueKind.COUNTS, first + turn) for turn in range(turns))

    def _counted(self, assignment: DimAssignment, first: int) -> list[int]:
        """The counts for turns from `first` on: the region's literals and longer ones, or sizes of the run."""
        dims = assignment.dims.values()
        if first == SIZED:
            longest = max(dims, default=1)
            return [longest, -(longest // 2)]  # and an index that counts from the end
        return numbers_for(self.constants.values(), dims, assignment.elements)

    def _literal_variants(self, assignment: DimAssignment) -> Iterator[tuple[ValueKind, int]]:
        """More turns for literals and for ties, where inputs of few elements hold few in each."""
        for number in range(1, self.literal_turns(assignment, out_of_role=False)):
            yield from (
                (ValueKind.USUAL, number * VARIANT_STRIDE + special) for special in (LITERALS_VARIANT, TIES_VARIANT)
            )
        bound = self.literal_turns(assignment, out_of_role=True)
        yield from ((ValueKind.OUT_OF_ROLE, LITERALS_OUT_OF_ROLE + number) for number in range(bound))

    def _turns(self, assignment: DimAssignment, wants: Collection[InputSpec]) -> int:
        sizes = self.model_sizes(assignment)
        least = min((math.prod(want.shape(sizes)) for want in wants), default=ROOM)
        return injections_needed(self.constants, len(self.edges), least)

    def _is_beside_alone(self, values: ValueKind) -> bool:
        """Whether only inputs that no softmax depends on have this kind: large scores would pick one value or none."""
        if values is ValueKind.UNIFORM_LARGE:
            return self._case.picks_by_products
        return values is ValueKind.SAFE_ROW_MAGNITUDES and self._benign_scores

    @property
    def _benign_scores(self) -> bool:
        """Whether the rule differs for extreme numbers: then only inputs that no softmax depends on are extreme."""
        return kind_name(ValueKind.EXTREME) in self._intended

    def _hiding_alone(self, turn: int) -> str | None:
        """The mask that hides rows in a turn while the others are usual; None where all do, or there is one mask."""
        place, hiding = (turn - HIDES_ALONE) // WAYS_TO_HIDE, self._plan.hiding
        return hiding[place] if len(hiding) > 1 and 0 <= place < len(hiding) else None

    @property
    def counts_past(self) -> bool:
        """Whether a length counts past and new rows."""
        return bool(self._totals)

    @cached_property
    def _totals(self) -> list[InputSpec]:
        """Lengths that may count past and new rows; empty where the region does not have both."""
        kinds = {dim_kind(name) for name in self._case.free if not is_total(name)}
        has_cache = {"past", "sequence"} <= kinds
        return [want for want in self._plan.wants if has_cache and not want.is_unconstrained and _counts_rows(want)]

    def _among(self, turn: int, turns: Sequence[int]) -> list[str]:
        """The inputs that are special in one of these turns, among others; empty where there is only one."""
        inputs = sorted(self.plain - self.weights)
        return inputs[turns.index(turn) :: len(turns)] if len(inputs) > 1 else []

    def make(self, assignment: DimAssignment, values: ValueKind, turn: int) -> Feeds:
        """One set of inputs: weights stay usual, and inputs that depend on sizes are computed from them."""
        sizes = self.model_sizes(assignment)
        is_nan_first = (values, turn) == (ValueKind.INFINITE, NAN_FIRST)
        kind = ValueKind.USUAL if is_nan_first else values
        feeds = self._plan.generate(self._seed + turn, sizes, kind, leave=self.weights)
        if is_nan_first:
            nan_first(feeds, self.plain - self.weights)
        if values is ValueKind.HIDDEN_ROWS and (alone := self._hiding_alone(turn)) is not None:
            feeds.update(self._plan.generate(self._seed + turn, sizes, leave={*self.weights, alone}))
        # An infinite score of an attention would turn all its values to NaN.
        if self._is_beside_alone(values) or (values is ValueKind.NON_FINITE and turn and self.beside):
            feeds.update(self._plan.generate(self._seed + turn, sizes, leave=self.weights | self.beside))
        if values is ValueKind.SAFE_ROW_MAGNITUDES:  # values that an attention picks from do not overflow
            scores = feeds.keys() - self.beside
            seed = self._seed + (turn + 1) % 2  # first one magnitude for all values of a batch, because they are mixed
            feeds.update(self._plan.generate(seed, sizes, ValueKind.ROW_MAGNITUDES, leave=self.weights | scores))
        if values is ValueKind.NON_FINITE and turn in BESIDE_BITS:
            special = self._among(turn, BESIDE_BITS)
            leave = self.weights.union(feeds.keys() - self.plain, special)
            bits = self._plan.generate(self._seed + turn, sizes, ValueKind.ZEROS_AND_ONES, leave=leave)
            feeds.update(with_zeros(bits, [feeds[name] for name in special]))
        for kind, turns in ((ValueKind.ZEROS, ZEROS_BESIDE), (ValueKind.NON_FINITE, BESIDE_USUAL)):
            if values is kind and turn in turns:
                leave = self.weights.union(self._among(turn, turns))
                feeds.update(self._plan.generate(self._seed + turn, sizes, leave=leave))
        if values is ValueKind.COUNTS:
            feeds.update(self.cached_lengths(assignment, np.random.default_rng(self._seed + turn)))
            if turn >= COUNTED:
                first = SIZED if turn >= SIZED else COUNTED
                feeds.update(count(self._countable, sizes, self._counted(assignment, first), turn - first))
        if (values, turn) in ((ValueKind.USUAL, EQUAL_VALUES_VARIANT), (ValueKind.NON_FINITE, 0)):
            inject_equal_values(feeds, self._plan, self._seed, opposed=values is ValueKind.NON_FINITE)
        if self.weights:
            shrunk = frozenset(assignment.reduced.items())
            if shrunk not in self._made:
                self._made.clear()
                self._made[shrunk] = self._plan.generate(self._seed, sizes, leave=feeds.keys())
            feeds.update(self._made[shrunk])
        way = turn % VARIANT_STRIDE if values is ValueKind.USUAL else 0
        if way in (LITERALS_VARIANT, TIES_VARIANT):
            inject_literals(
                feeds,
                self._plan,
                self.constants,
                self._seed + turn,
                edges=self.edges,
                most=min(
                    self.largest_literal,
                    np.inf if turn < VARIANT_STRIDE or assignment.elements < ROOM else ROOMY_LITERAL,
                ),
                small=self.small_constants,
                ties=way == TIES_VARIANT,
            )
        if values is ValueKind.OUT_OF_ROLE and turn >= LITERALS_OUT_OF_ROLE:
            seed = self._seed + turn * VARIANT_STRIDE
            inject_literals(feeds, self._plan, self.constants, seed, most=LARGE_LITERAL, out_of_role=True)
        return feeds | self.sized_values(assignment, feeds)

    def cached_lengths(self, assignment: DimAssignment, random: np.random.Generator) -> Feeds:
        """Lengths that count past and new rows: a scalar counts all, an element of a vector ends its own sequence.

        Empty without such.
        """
        sizes = {name: size for name, size in assignment.by_symbol.items() if not is_total(name)}
        past, new = (sum(sizes[name] for name in sizes if dim_kind(name) == kind) for kind in ("past", "sequence"))
        made: Feeds = {}
        for want in self._totals if past and new else ():
            shape = want.shape(self.model_sizes(assignment))
            last = random.integers(new - 1, past + new, shape) if shape else np.asarray(past + new)
            last.reshape(-1)[:1] = past + new - bool(shape)
            made[want.name] = last.astype(want.dtype)
        return made

    def overflows(self, values: ValueKind, turn: int) -> bool:
        """Whether inputs of a kind are finite, but so large that results may overflow."""
        hides = values in MASKED_KINDS and not hides_endlessly(self._seed + turn)
        return values in OVERFLOWING or hides

    def with_weights(self, assignment: DimAssignment, values: ValueKind) -> Feeds:
        """Usual inputs, with weights of another kind."""
        feeds = self.make(assignment, ValueKind.USUAL, 0)
        feeds.update(
            self._plan.generate(self._seed, self.model_sizes(assignment), values, leave=feeds.keys() - self.weights)
        )
        return feeds

    @property
    def specs(self) -> Sequence[InputSpec]:
        """All inputs that get values, weights too."""
        return self._plan.wants

    @property
    def small_constants(self) -> frozenset[str]:
        """The constants whose large numbers do not count as literals for floats."""
        return self._counts.union(self._case.replacement_only, self._replacement_only)

    def literal_turns(self, assignment: DimAssignment, *, out_of_role: bool) -> int:
        """How often literals are put into inputs until each has held all."""
        if out_of_role:
            wants = [want for want in self._plan.wants if want.may_ignore_role]
            return min(self._turns(assignment, wants), MAX_OUT_OF_ROLE) if wants else 0
        return self._turns(assignment, [want for want in self._plan.wants if want.is_unconstrained])

    def count_arrays(self, assignment: DimAssignment) -> Iterator[Feeds]:
        """The inputs that are counts, with one number at one place in each; sizes of the run come first."""
        yield from self.sized_counts(assignment)
        yield from self._each_count(assignment, COUNTED)

    def sized_counts(self, assignment: DimAssignment) -> Iterator[Feeds]:
        """The same with the longest size of the run, and an index that counts from its end, unless that makes much."""
        if assignment.elements * max(assignment.dims.values(), default=1) <= MAX_REPEATED:
            yield from self._each_count(assignment, SIZED)

    def _each_count(self, assignment: DimAssignment, first: int) -> Iterator[Feeds]:
        sizes, numbers = self.model_sizes(assignment), self._counted(assignment, first)
        for turn in range(turns_of(self._countable, sizes, numbers)):
            yield count(self._countable, sizes, numbers, turn)

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

    @cached_property
    def _counts(self) -> frozenset[str]:
        """Constants that are counts, indices or sizes, not operands of arithmetic."""
        return counts(self._case.models.before)

    def model_sizes(self, assignment: DimAssignment) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for text, size in self._case.models.dims.items():
            with suppress(SizeError):  # only a size of a table, which has no rows then
                found[text] = assignment.size(size)
        return found

    @cached_property
    def largest_literal(self) -> float:
        """The largest literal for which inputs are not of a kind that the rule intends to differ for."""
        return next((most for kind, most in LITERAL_LIMITS if kind_name(kind) in self._intended), np.inf)


def _counts_rows(want: InputSpec) -> bool:
    """Whether an input is a length, or the index of the last row, as GroupQueryAttention takes it of each sequence."""
    return want.kind == "lengths" or (want.kind == "indices" and want.role.flags & {"beyond", "lookup"} == {"beyond"})


def inputs_beside_softmax(model: ModelProto) -> frozenset[str]:
    """The inputs of a graph that no softmax depends on, as the values of an attention; empty without a softmax."""
    hanging: set[str] = set()
    for node in reversed(model.graph.node):  # topologically sorted
        values = _beside(traits_of(qualified_name(node.domain, node.op_type)))
        if not hanging.isdisjoint(node.output):
            hanging.update(node.input)
        elif values is not None:
            hanging.update(name for place, name in enumerate(node.input) if place not in values)
    return frozenset(port.name for port in model.graph.input if port.name not in hanging) if hanging else frozenset()


def _beside(known: OpTraits) -> Slots | None:
    """The inputs of an operator that the softmax in it does not depend on; None for operators without a softmax."""
    if known.products.attention_inputs is not None:
        return [
            slot
            for slot in (known.products.attention_inputs.value, known.products.attention_inputs.past_value)
            if slot is not None
        ]
    return () if known.numerics.is_softmax else None
