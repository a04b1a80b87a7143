"""Inputs for both sides of an experiment: at any sizes, of any kind, with what is known of the region put into them."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

import numpy as np
from onnx import ModelProto

from surgeon.analysis.decisions.thresholds import edges_of, region_literals, scopes_of
from surgeon.analysis.input_dependence import counts
from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.op_traits import OpTraits, Slots
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.proof.cases.counts import MOST_TURNS, count, countable, numbers_for, turns_of
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.cases.literal_injection import (
    LARGE_PIN,
    PINS_WITHIN,
    ROOMY_PIN,
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
    LITERALS_VARIANT,
    MOST_OUT_OF_ROLE,
    NAN_FIRST,
    PINS_OUT_OF_ROLE,
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

_MOST_WORDS = 100  # turns for the strings that a region speaks of, of which an input of few elements holds one or two
SIZED = COUNTED + MOST_TURNS  # the first turn of counts that are sizes of the run
_COMBINED = [item for item in FULL_SCHEDULE if item[0] is ValueKind.USUAL]  # turns that conditions are combined in


class CaseInputs:
    """Makes the inputs of one experiment.

    plain: float inputs of no special role, by name.  Raises InputsUnknown for inputs that cannot be made.
    """

    def __init__(self, experiment: ProofCase) -> None:
        minis = experiment.models
        self._experiment, self._seed, self._apart = experiment, experiment.options.seed, experiment.intended_differences
        self._plan = InputGenerator(minis.before, names=False, bare=experiment.shape_only_inputs)
        self.plain = self._plan.edged
        self.weights = frozenset(item.name for item in experiment.inputs if item.weight)
        self._beside = inputs_beside_softmax(minis.before)
        self._made: dict[frozenset[tuple[int, int]], Feeds] = {}  # weights, once for which fixed dims are made smaller
        told = {f"/{name}": numbers for name, numbers in region_literals(minis.after).items() if name.startswith("/")}
        self._told = told.keys()  # what attributes of the replacement say
        self._constants = region_literals(minis.before) | told
        self._edges = list(dict.fromkeys((*edges_of(scopes_of(minis.before)), *edges_of(scopes_of(minis.after)))))
        self._plan.speak(vocabulary(minis.after))
        self._countable = countable(self._plan.wants)

    def is_informative(self, values: ValueKind, turn: int) -> bool:
        """Whether inputs of a kind tell something here."""
        if self._is_beside_alone(values):
            is_apart = values is ValueKind.UNIFORM_LARGE and self._spares_scores
            return not is_apart and not self._beside.isdisjoint(self._plan.edged)
        if values is ValueKind.HIDDEN_ROWS and turn >= HIDES_ALONE and self._hiding_alone(turn) is None:
            return False
        if (
            values is ValueKind.NON_FINITE
            and turn in BESIDE_BITS
            and (self._beside or not self._among(turn, BESIDE_BITS))
        ):
            return False
        if values is ValueKind.NON_FINITE and turn in BESIDE_USUAL:
            decides = chooses(self._experiment.ops) and self._among(turn, BESIDE_USUAL)
            return bool(decides) and is_worth_trying(self._plan, values, self._seed + turn, self._apart)
        if values is ValueKind.ZEROS and turn and not self._among(turn, ZEROS_BESIDE):
            return False
        if values is ValueKind.COUNTS and self._totals:
            return True
        if values is ValueKind.COUNTS and turn >= COUNTED and not self._countable:
            return False
        return is_worth_trying(self._plan, values, self._seed + turn, self._apart)

    def more(self, setting: DimAssignment) -> list[tuple[ValueKind, int]]:
        """More turns, for conditions, of which all values are to meet, and for constants of the region."""
        turns = max(self._plan.seeds() if self._plan.conditions else 0, min(self._plan.words, _MOST_WORDS))
        combined = range(len(_COMBINED), turns)
        return [
            *((ValueKind.USUAL, turn) for turn in combined),
            *self._pins_in_turn(setting),
            *self._turns_counted(setting, COUNTED),
        ]

    def counts_sized(self, setting: DimAssignment) -> Iterator[tuple[ValueKind, int]]:
        """Turns for counts that are sizes of the run."""
        return self._turns_counted(setting, SIZED)

    def _turns_counted(self, setting: DimAssignment, first: int) -> Iterator[tuple[ValueKind, int]]:
        turns = turns_of(self._countable, self._sizes(setting), self._counted(setting, first))
        yield from ((ValueKind.COUNTS, first + turn) for turn in range(turns))

    def _counted(self, setting: DimAssignment, first: int) -> list[int]:
        """What is counted in turns from the first on: the region's own constants and longer ones, or sizes."""
        dims = setting.dims.values()
        if first == SIZED:
            longest = max(dims, default=1)
            return [longest, -(longest // 2)]  # and a place that is counted from the end
        return numbers_for(self._constants.values(), dims, setting.elements)

    def _pins_in_turn(self, setting: DimAssignment) -> Iterator[tuple[ValueKind, int]]:
        """More turns for the region's own constants, and for ties, where inputs of few elements hold few each."""
        for number in range(1, self._turns(setting, [want for want in self._plan.wants if want.is_unconstrained])):
            yield from (
                (ValueKind.USUAL, number * VARIANT_STRIDE + special) for special in (LITERALS_VARIANT, TIES_VARIANT)
            )
        bound = min(self._turns(setting, [want for want in self._plan.wants if want.may_ignore_role]), MOST_OUT_OF_ROLE)
        yield from ((ValueKind.OUT_OF_ROLE, PINS_OUT_OF_ROLE + number) for number in range(bound))

    def _turns(self, setting: DimAssignment, wants: Collection[InputSpec]) -> int:
        """How many turns these inputs take to hold the region's own constants."""
        sizes = self._sizes(setting)
        least = min((math.prod(want.shape(sizes)) for want in wants), default=ROOM)
        return injections_needed(self._constants, len(self._edges), least)

    def _is_beside_alone(self, values: ValueKind) -> bool:
        """Whether inputs that no softmax hangs on are alone of this kind: of scores so large it picks one, or none."""
        if values is ValueKind.UNIFORM_LARGE:
            return self._experiment.picks_by_products
        return values is ValueKind.SAFE_ROW_MAGNITUDES and self._spares_scores

    @property
    def _spares_scores(self) -> bool:
        """Whether the rule differs for extreme numbers: then those that no softmax hangs on are so alone."""
        return kind_name(ValueKind.EXTREME) in self._apart

    def _hiding_alone(self, turn: int) -> str | None:
        """Which of several masks hides rows in a turn, beside usual ones; None where all do, or there is no other."""
        place, hiding = (turn - HIDES_ALONE) // WAYS_TO_HIDE, self._plan.hiding
        return hiding[place] if len(hiding) > 1 and 0 <= place < len(hiding) else None

    @property
    def counts_past(self) -> bool:
        """Whether a length counts past and new rows."""
        return bool(self._totals)

    @cached_property
    def _totals(self) -> list[InputSpec]:
        """Lengths that may count past and new rows; none where the region has not both."""
        kinds = {dim_kind(name) for name in self._experiment.free if not is_total(name)}
        has_cache = {"past", "sequence"} <= kinds
        return [want for want in self._plan.wants if has_cache and not want.is_unconstrained and _counts_rows(want)]

    def _among(self, turn: int, turns: Sequence[int]) -> list[str]:
        """Which inputs are special in one of these turns, beside the others; none without others."""
        inputs = sorted(self.plain - self.weights)
        return inputs[turns.index(turn) :: len(turns)] if len(inputs) > 1 else []

    def make(self, setting: DimAssignment, values: ValueKind, turn: int) -> Feeds:
        """One set of inputs: weights stay usual, and what follows from the sizes is computed from them."""
        sizes = self._sizes(setting)
        is_nan_first = (values, turn) == (ValueKind.INFINITE, NAN_FIRST)
        kind = ValueKind.USUAL if is_nan_first else values
        feeds = self._plan.generate(self._seed + turn, sizes, kind, leave=self.weights)
        if is_nan_first:
            nan_first(feeds, self.plain - self.weights)
        if values is ValueKind.HIDDEN_ROWS and (alone := self._hiding_alone(turn)) is not None:
            feeds.update(self._plan.generate(self._seed + turn, sizes, leave={*self.weights, alone}))
        # Of what attention picks by, infinity leaves NaN alone of what it picks from.
        if self._is_beside_alone(values) or (values is ValueKind.NON_FINITE and turn and self._beside):
            feeds.update(self._plan.generate(self._seed + turn, sizes, leave=self.weights | self._beside))
        if values is ValueKind.SAFE_ROW_MAGNITUDES:  # nothing that overflows is made of what is beside a softmax
            scores = feeds.keys() - self._beside
            seed = self._seed + (turn + 1) % 2  # first all values of a batch of one magnitude, for they are mixed
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
            feeds.update(self._behind_a_cache(setting, turn))
            if turn >= COUNTED:
                first = SIZED if turn >= SIZED else COUNTED
                feeds.update(count(self._countable, sizes, self._counted(setting, first), turn - first))
        if (values, turn) in ((ValueKind.USUAL, EQUAL_VALUES_VARIANT), (ValueKind.NON_FINITE, 0)):
            inject_equal_values(feeds, self._plan, self._seed, opposed=values is ValueKind.NON_FINITE)
        if self.weights:
            shrunk = frozenset(setting.reduced.items())
            if shrunk not in self._made:
                self._made.clear()
                self._made[shrunk] = self._plan.generate(self._seed, sizes, leave=feeds.keys())
            feeds.update(self._made[shrunk])
        way = turn % VARIANT_STRIDE if values is ValueKind.USUAL else 0
        if way in (LITERALS_VARIANT, TIES_VARIANT):
            inject_literals(
                feeds,
                self._plan,
                self._constants,
                self._seed + turn,
                edges=self._edges,
                most=min(self._largest_pin, np.inf if turn < VARIANT_STRIDE or setting.elements < ROOM else ROOMY_PIN),
                small=self._counts.union(self._experiment.replacement_only, self._told),
                ties=way == TIES_VARIANT,
            )
        if values is ValueKind.OUT_OF_ROLE and turn >= PINS_OUT_OF_ROLE:
            seed = self._seed + turn * VARIANT_STRIDE
            inject_literals(feeds, self._plan, self._constants, seed, most=LARGE_PIN, out_of_role=True)
        for item in self._experiment.inputs:
            if item.value is not None:
                feeds[item.name] = setting.value(item.value, feeds[item.name].dtype)
        return feeds

    def _behind_a_cache(self, setting: DimAssignment, turn: int) -> Feeds:
        """Lengths that count past and new rows: a lone one all, of several each what is before the last of its own."""
        sizes = {name: size for name, size in setting.by_symbol.items() if not is_total(name)}
        past, new = (sum(sizes[name] for name in sizes if dim_kind(name) == kind) for kind in ("past", "sequence"))
        random, made = np.random.default_rng(self._seed + turn), {}
        for want in self._totals if past and new else ():
            shape = want.shape(self._sizes(setting))
            last = random.integers(new - 1, past + new, shape) if shape else np.asarray(past + new)
            last.reshape(-1)[:1] = past + new - bool(shape)
            made[want.name] = last.astype(want.dtype)
        return made

    def overflows(self, values: ValueKind, turn: int) -> bool:
        """Whether inputs of a kind are finite, and so large that what is made of them may not be."""
        hides = values in MASKED_KINDS and not hides_endlessly(self._seed + turn)
        return values in OVERFLOWING or hides

    def with_weights(self, setting: DimAssignment, values: ValueKind) -> Feeds:
        """Usual inputs, but weights of a kind."""
        feeds = self.make(setting, ValueKind.USUAL, 0)
        feeds.update(self._plan.generate(self._seed, self._sizes(setting), values, leave=feeds.keys() - self.weights))
        return feeds

    @cached_property
    def _counts(self) -> frozenset[str]:
        """Constants that are no numbers of what is computed."""
        return counts(self._experiment.models.before)

    def _sizes(self, setting: DimAssignment) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for text, size in self._experiment.models.dims.items():
            with suppress(SizeError):  # of a table alone, which has no rows then
                found[text] = setting.size(size)
        return found

    @cached_property
    def _largest_pin(self) -> float:
        """Up to where numbers of the region's own are of a kind of input that the rule does not differ for."""
        return next((most for kind, most in PINS_WITHIN if kind_name(kind) in self._apart), np.inf)


def _counts_rows(want: InputSpec) -> bool:
    """Whether an input is a length, or the last row below one, as GroupQueryAttention takes it of each sequence."""
    return want.kind == "lengths" or (want.kind == "indices" and want.role.flags & {"beyond", "lookup"} == {"beyond"})


def inputs_beside_softmax(model: ModelProto) -> frozenset[str]:
    """The inputs of a graph that no softmax of it hangs on, as the values of an attention; none without a softmax."""
    hanging: set[str] = set()
    for node in reversed(model.graph.node):  # which are sorted
        values = _beside(traits_of(qualified_name(node.domain, node.op_type)))
        if not hanging.isdisjoint(node.output):
            hanging.update(node.input)
        elif values is not None:
            hanging.update(name for place, name in enumerate(node.input) if place not in values)
    return frozenset(port.name for port in model.graph.input if port.name not in hanging) if hanging else frozenset()


def _beside(known: OpTraits) -> Slots | None:
    """Which inputs of an operator with a softmax inside it does not hang on: values; None for any other operator."""
    if known.products.attention_inputs is not None:
        return [
            slot
            for slot in (known.products.attention_inputs.value, known.products.attention_inputs.past_value)
            if slot is not None
        ]
    return () if known.numerics.is_softmax else None
