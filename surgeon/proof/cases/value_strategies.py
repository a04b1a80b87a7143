"""The kinds of input values that a region runs on, in order, and which of them are informative."""

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
from onnx import GraphProto

from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import node_traits, traits_of
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.proof.proof_case import ProofCase
from surgeon.runtime.inputs.fractional_values import OF_NAN
from surgeon.runtime.inputs.fractional_values import TURNS as FRACTIONS
from surgeon.runtime.inputs.input_generator import InputGenerator, ValueKind
from surgeon.runtime.inputs.input_spec import MASKED_KINDS
from surgeon.runtime.inputs.mask_values import WAYS_TO_HIDE, hides_endlessly
from surgeon.runtime.numerics.magnitude_classes import input_magnitude
from surgeon.shapes.constraints.input_dims import dim_kind

# The turn of usual values that two inputs share in places, and the part of these places.
EQUAL_VALUES_VARIANT, EQUAL_PART = 1, 1 / 8
VARIANT_STRIDE = 4  # turns from one size to the next: other numbers for the same purpose
LITERALS_VARIANT, TIES_VARIANT = 2, 3  # turns of usual values with literals of the region, and with ties
ORDERS = (0, 3)  # turns of ordered rows
NAN_FIRST = 4  # a turn of non-finite values in which only the first slice along the first axis is NaN
ENDS = 3  # turns of infinite values: throughout, in whole rows, single ones
# Turns in which one input of three holds non-finite values, and the others zeros and ones with a row of zeros.
BESIDE_BITS = (3, 9, 15)
BESIDE_USUAL = (6, 12, 18)  # the same with usual numbers in the others, where floats decide a choice
ZEROS_BESIDE = (1, 2)  # turns of zeros in every other input, with usual numbers in the others
COUNTED = 5  # the first turn of counts that are literals of the region, or longer
ALONE = 2  # the first turn of magnitudes for only every other input
HIDES_ALONE, MAX_HIDING = 4, 3  # the first turn of hidden rows for one of several masks, and for how many masks
LITERALS_OUT_OF_ROLE, MAX_OUT_OF_ROLE = 3, 4  # the first turn of literals out of role, and how many
MAX_LITERALS, LITERAL_SPACING = 32, 2  # literals of one turn, at most; elements per literal
# At the first sizes, and at the others.
FULL_SCHEDULE = (
    *((ValueKind.USUAL, turn) for turn in range(4)),
    (ValueKind.WIDE, 0),
    (ValueKind.LARGE, 1),
    *((ValueKind.ZEROS, turn) for turn in (0, *ZEROS_BESIDE)),
    (ValueKind.DENORMALS, 0),
    (ValueKind.CONSTANT_ROWS, 0),
    *((ValueKind.OFFSET, turn) for turn in range(2)),
    *((ValueKind.ORDERED, turn) for turn in ORDERS),
    (ValueKind.SMALL, 0),
    (ValueKind.LARGE_INTEGERS, 0),
    *((ValueKind.EXTREME, turn) for turn in range(2)),
    *((ValueKind.NON_FINITE, turn) for turn in (*range(ENDS), NAN_FIRST, *BESIDE_BITS, *BESIDE_USUAL)),
    *((ValueKind.MAGNITUDES, turn) for turn in range(ALONE + 2)),
    (ValueKind.TINY, 0),
    (ValueKind.UNIFORM_LARGE, 0),
    *((ValueKind.HOLES, turn) for turn in range(3)),
    *((ValueKind.HIDDEN_ROWS, turn) for turn in range(HIDES_ALONE + WAYS_TO_HIDE * MAX_HIDING)),
    (ValueKind.BACKWARDS, 0),
    (ValueKind.INTEGER_LIMITS, 0),
    *((ValueKind.COUNTS, turn) for turn in range(COUNTED)),
    *((ValueKind.FRACTIONS, turn) for turn in range(FRACTIONS)),
    *((ValueKind.OUT_OF_ROLE, turn) for turn in range(LITERALS_OUT_OF_ROLE)),
)
# The same where one run is costly: each kind once, and usual values with literals and ties.
_TOO = (
    *((ValueKind.USUAL, LITERALS_VARIANT), (ValueKind.USUAL, TIES_VARIANT), (ValueKind.LARGE, 1)),
    *((ValueKind.HIDDEN_ROWS, 1), (ValueKind.HIDDEN_ROWS, HIDES_ALONE)),
)
# Wide and usual values show most faults of these.
_LEFT_OUT = (ValueKind.TINY, ValueKind.UNIFORM_LARGE, ValueKind.ORDERED)
COSTLY_SCHEDULE = tuple(item for item in FULL_SCHEDULE if (item[1] == 0 and item[0] not in _LEFT_OUT) or item in _TOO)
OTHER_SIZES_SCHEDULE = ((ValueKind.USUAL, 0), (ValueKind.WIDE, 0), (ValueKind.NON_FINITE, 0))
# For a region whose class is proved in full.
_BRIEFLY = (ValueKind.SMALL, ValueKind.MAGNITUDES, ValueKind.UNIFORM_LARGE)
BRIEF_SCHEDULE = (*OTHER_SIZES_SCHEDULE, *((kind, 0) for kind in _BRIEFLY))
SINGLE_RUN_SCHEDULE = ((ValueKind.USUAL, 0),)
MANY = 1000  # rows from which sums of products of bytes exceed the integers of float32
ROOM = MAX_LITERALS * LITERAL_SPACING
REPEATED_SCHEDULE = tuple((ValueKind.USUAL, turn * VARIANT_STRIDE) for turn in range(1, 33))
WEIGHED = (ValueKind.ZEROS_AND_ONES, ValueKind.CONSTANT_ROWS, ValueKind.NON_FINITE)  # kinds of generated weights
_INFORMATIVE = frozenset((ValueKind.USUAL, ValueKind.WIDE, ValueKind.LARGE, ValueKind.UNSIGNED, ValueKind.BENIGN))
_OF_MAGNITUDES = frozenset(
    (
        ValueKind.MAGNITUDES,
        ValueKind.SAFE_MAGNITUDES,
        ValueKind.ROW_MAGNITUDES,
        ValueKind.SAFE_ROW_MAGNITUDES,
        ValueKind.TINY,
        ValueKind.UNIFORM_LARGE,
    )
)
LOSING = _OF_MAGNITUDES - {ValueKind.TINY} | {ValueKind.EXTREME}  # kinds whose products overflow
_TINY = ("zeros", "denormals", "small")  # a rule that differs for one of these differs for tiny values too


def kinds_at_other_sizes(
    number: int, longest: int, *, has_room: bool, is_counted: bool, is_first: bool
) -> list[tuple[ValueKind, int]]:
    """The kinds at the `number`th of the other sizes.

    has_room: inputs have room for all literals, and for numbers of every magnitude.  is_counted: some size is 1, where
    inconsistent counts of several batches run, or lengths count past and new rows.  longest: the largest dim.
    is_first: whether these are the first sizes with so large a dim.
    """
    usual = [
        (ValueKind.USUAL, number * VARIANT_STRIDE + special)
        for special in ((LITERALS_VARIANT, TIES_VARIANT) if has_room else (0,))
    ]
    limits, counts = [(ValueKind.INTEGER_LIMITS, number)], [(ValueKind.COUNTS, 0)]
    magnitudes = [(ValueKind.MAGNITUDES, 0)] if has_room or is_first else []
    return [*usual, *(limits if has_room or longest >= MANY else ()), *magnitudes, *(counts if is_counted else ())]


def _some(ops: Iterable[str], is_so: Callable[[OpTraits], object]) -> bool:
    return any(is_so(traits_of(op)) for op in ops)


def chooses(ops: Iterable[str]) -> bool:
    """Whether one of these operators gives booleans of numbers, or chooses between tensors."""
    return _some(ops, lambda op: op.dtype.returns_bool or op.control.selectors or op.algebra.compares)


def adds_products(ops: Iterable[str]) -> bool:
    """Whether one of these operators adds up products: the order of terms decides which large ones overflow."""
    return _some(ops, lambda op: op.products.kind)


def region_traits(case: ProofCase) -> frozenset[str]:
    """What the nodes of both sides do, as far as it decides which inputs are informative."""
    ops = case.ops
    found = {
        "adds products": adds_products(ops),
        "accumulates": _hides_small(ops),
        "reads positions": reads_places(ops),
        "reads any positions": _reads_any_places(ops),
        "finds extremes": _some(ops, lambda op: op.numerics.reduces == "extremum") or _scatters_extremes(case),
        "sums": _some(ops, lambda op: op.numerics.reduces == "sum"),
        "picks by products": case.picks_by_products,
        "squares": case.squares,
        "divides": case.divides,
    }
    return frozenset(name for name, holds in found.items() if holds)


def _scatters_extremes(case: ProofCase) -> bool:
    """Whether a node of the original keeps the larger or smaller of several numbers that it writes to one position."""
    found = (item for node in case.models.before.graph.node for item in node.attribute if item.name == "reduction")
    return any(item.s in (b"max", b"min") for item in found)


def adds_nothing(assignment: DimAssignment, ops: Iterable[str]) -> bool:
    """Whether a sum of products may have no terms: some kernels return uninitialized memory then."""
    empty = [name for name, size in assignment.by_symbol.items() if not size]
    return assignment.is_empty and adds_products(ops) and any(dim_kind(name) != "past" for name in empty)


def products_of(graph: GraphProto) -> list[str]:
    """The tensors of a graph that are matrix products, without those in bodies."""
    known = ((node, node_traits(node)) for node in graph.node)
    return [name for node, op in known if op.products.kind in ("matmul", "einsum") for name in node.output]


def begins_at_zero(ops: Iterable[str]) -> bool:
    """Whether one of these operators adds up numbers: a kernel may start at its own zero, whose sign then counts."""
    return _some(ops, lambda op: op.numerics.accumulates or op.products.kind)


def _hides_small(ops: Iterable[str]) -> bool:
    """Whether results of one of these operators show only the large ones among numbers of all magnitudes."""
    return _some(ops, lambda op: op.numerics.accumulates or op.numerics.is_max_like)


def _orders(ops: Iterable[str], *, squares: bool) -> bool:
    """Whether the order of terms and factors decides which of uniformly large numbers overflow."""
    return squares or adds_products(ops) or _hides_small(ops)


def reads_places(ops: Iterable[str]) -> bool:
    """Whether floats are positions that one of these operators reads: kernels differ for far or tiny positions."""
    return _some(ops, lambda op: op.indexing.reads_coordinates)


def _reads_any_places(ops: Iterable[str]) -> bool:
    """The same where these floats may be any number; boxes are generated as boxes."""
    return _some(ops, lambda op: op.indexing.reads_coordinates and op.indexing.boxes is None)


def has_absolute_error(op: OpTraits) -> bool:
    """Whether kernels of an operator have an absolute error, or one of the values between positions.

    Small results are lost in that error, unless both sides of a region have equal nodes of such operators.
    """
    return op.numerics.error_is_absolute or op.indexing.reads_coordinates


def absolute_error(ops: Collection[str], shape: tuple[int, ...], feeds: Mapping[str, np.ndarray]) -> float | np.ndarray:
    """The absolute error that kernels of these operators may have: one for all elements of `shape`, or one for each."""
    if not _some(ops, has_absolute_error):
        return 0.0
    part = input_magnitude(shape, feeds) if error_scales_with_input(ops) else None
    return 1.0 if part is None else part


def error_scales_with_input(ops: Collection[str]) -> bool:
    """Whether the absolute error shrinks with the inputs where all inputs are below one."""
    return not _some(ops, lambda op: not op.numerics.error_is_input_scaled)


def kind_name(values: ValueKind) -> str:
    """The name of a kind of inputs in rules and reports."""
    return values.name.lower()


def scope_note(intended: Iterable[str], empty: str) -> str:
    """What a proof does not cover, as a note; empty where there is nothing to note.

    intended: kinds of inputs for which a rule differs on purpose.  empty: sizes, one of them 0, at which only the
    original runs.
    """
    kinds = " and ".join(sorted(intended))
    notes = (
        f"for all inputs but {kinds}, where the rule differs on purpose" if kinds else "",
        f"where a size is 0 ({empty}) the replacement does not run, and the original does" if empty else "",
    )
    return "; ".join(filter(None, notes))


def describe_inputs(description: str, kind: str, feeds: Mapping[str, np.ndarray]) -> str:
    """A description of inputs in brackets, for a message.  kind: the public kind by which a rule may differ."""
    shapes = ", ".join(str(list(array.shape)) for array in feeds.values())
    return f" (inputs {description}, shapes {shapes}{_differs_hint(kind)})"


def _differs_hint(kind: str) -> str:
    """How to declare an intended difference for such inputs, as the end of a sentence; empty for most kinds.

    Only overflow and non-finite numbers have such a hint, because right rules differ there too.
    """
    public = "non_finite" if kind == "infinite" else kind
    if public not in ("non_finite", "extreme"):
        return ""
    return f'; a rule that means this says differs={{"{public}": "why"}}'


def adapted_kind(
    values: ValueKind,
    turn: int,
    ops: Collection[str],
    inputs: int,
    *,
    picks: bool,
    squares: bool,
    divides: bool = False,
) -> ValueKind | None:
    """The kind to try in place of another for a region of these operators; None where none is informative.

    inputs: how many may hold any number.  picks: whether there is a softmax of products, of which the order picks one
    where they overflow.  squares: whether a tensor is multiplied by itself, which overflows from half of the exponents
    on.  divides: whether a divisor may be -1, which crashes for the least integer, or a dividend may have overflowed.
    """
    if picks and values in (ValueKind.OFFSET, ValueKind.EXTREME):
        return ValueKind.SMALL_OFFSET if values is ValueKind.OFFSET else None
    if values is ValueKind.NON_FINITE and _some(ops, lambda op: op.numerics.reduces == "extremum"):
        # Kernels find NaN only at some positions.
        return ValueKind.INFINITE if turn < ENDS or turn == NAN_FIRST else None
    if values is ValueKind.NON_FINITE and turn == NAN_FIRST:
        return None
    if values is ValueKind.MAGNITUDES:
        return None if reads_places(ops) else _of_magnitudes(turn, ops, inputs, picks=picks, squares=squares)
    if values is ValueKind.UNIFORM_LARGE and (_reads_any_places(ops) or (not picks and _orders(ops, squares=squares))):
        return None
    if values is ValueKind.INTEGER_LIMITS:
        # ONNX Runtime saturates sums of integers: the order of terms decides.
        return ValueKind.SUMMABLE_INTEGERS if divides or _some(ops, lambda op: op.numerics.reduces == "sum") else values
    return values


def _of_magnitudes(turn: int, ops: Collection[str], inputs: int, *, picks: bool, squares: bool) -> ValueKind | None:
    """The kind for numbers of all magnitudes: from `ALONE` on one in which some inputs are usual, or no sum is huge.

    A sum over all elements shows only the largest magnitudes.  Where a result depends on the last bit of one large
    input (its cosine), it shows nothing of the others.
    """
    hides = picks or _hides_small(ops)
    if hides and (picks or squares or adds_products(ops)):
        return ValueKind.SAFE_ROW_MAGNITUDES if turn < ALONE else None
    if turn >= ALONE:
        return ValueKind.SAFE_ROW_MAGNITUDES if inputs > 1 or (hides and turn == ALONE) else None
    return (
        ValueKind.ROW_MAGNITUDES if hides else ValueKind.SAFE_MAGNITUDES if adds_products(ops) else ValueKind.MAGNITUDES
    )


def is_worth_trying(plan: InputGenerator, values: ValueKind, seed: int, intended: frozenset[str]) -> bool:
    """Whether inputs of a kind are informative: they differ from usual ones, and no rule differs there on purpose.

    intended: the kinds for which a rule does.
    """
    if kind_name(values) in intended:
        return False
    if values is ValueKind.INFINITE and kind_name(ValueKind.NON_FINITE) in intended:
        return False
    if values in _OF_MAGNITUDES and kind_name(ValueKind.EXTREME) in intended:
        return False
    if values is ValueKind.TINY and any(kind in intended for kind in _TINY):
        return False
    if values is ValueKind.OUT_OF_ROLE and not intended.isdisjoint(
        map(kind_name, (*MASKED_KINDS, ValueKind.BACKWARDS))
    ):
        return False
    if values is ValueKind.FRACTIONS and kind_name(ValueKind.NON_FINITE) in intended and seed % FRACTIONS == OF_NAN:
        return False
    if values in MASKED_KINDS and kind_name(ValueKind.NON_FINITE) in intended and hides_endlessly(seed):
        return False
    return values in _INFORMATIVE or plan.is_affected_by(values)
