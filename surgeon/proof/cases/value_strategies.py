"""Which kinds of inputs a region is run on, in which order, and which of them tell something of it."""

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
from onnx import GraphProto

from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import guess_node_traits, guess_traits
from surgeon.proof.cases.dim_assignment import DimAssignment
from surgeon.runtime.inputs.fractional_values import OF_NAN
from surgeon.runtime.inputs.fractional_values import TURNS as FRACTIONS
from surgeon.runtime.inputs.input_generator import InputGenerator, ValueKind
from surgeon.runtime.inputs.input_spec import MASKED_KINDS
from surgeon.runtime.inputs.mask_values import WAYS_TO_HIDE, hides_endlessly
from surgeon.runtime.numerics.magnitude_classes import input_magnitude
from surgeon.shapes.constraints.input_dims import dim_kind

EQUAL_VALUES_VARIANT, PART_OF_TWINS = (
    1,
    1 / 8,
)  # the turn of usual values of which some are alike in two inputs, and how many are
VARIANT_STRIDE = 4  # turns from one of these sizes to the next: other numbers, for the same purpose
LITERALS_VARIANT, TIES_VARIANT = (
    2,
    3,
)  # turns of usual values that hold the region's own constants too, and what lies between steps
ORDERS = (0, 3)  # turns of rows in some order, of which three rows show all but one
NAN_FIRST = 4  # a turn of them in which the first of the slices along the first axis is NaN, and nothing else
ENDS = 3  # turns of infinite values: some throughout, rows of one, lone ones
# Turns of them in which one input of three holds them, and the others zeros and ones, among the zeros a whole row.
BESIDE_BITS = (3, 9, 15)
BESIDE_USUAL = (6, 12, 18)  # the same beside usual numbers, where floats decide what is chosen
ZEROS_BESIDE = (1, 2)  # turns of zeros in every other input, beside usual numbers in the others
COUNTED = 5  # the first turn of counts that holds the region's own constants, and longer counts
ALONE = 2  # the first turn of all magnitudes in which every other input is of them alone
HIDES_ALONE, MOST_HIDING = 4, 3  # the first turn of hidden rows for one of several masks alone, and of how many masks
PINS_OUT_OF_ROLE, MOST_OUT_OF_ROLE = 3, 4  # the first turn out of role of the region's own constants, and how many
MOST_PINS, PART_OF_PINS = 32, 2  # how many of them, of how many elements each: at least every other stays as it is
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
    *((ValueKind.HIDDEN_ROWS, turn) for turn in range(HIDES_ALONE + WAYS_TO_HIDE * MOST_HIDING)),
    (ValueKind.BACKWARDS, 0),
    (ValueKind.INTEGER_LIMITS, 0),
    *((ValueKind.COUNTS, turn) for turn in range(COUNTED)),
    *((ValueKind.FRACTIONS, turn) for turn in range(FRACTIONS)),
    *((ValueKind.OUT_OF_ROLE, turn) for turn in range(PINS_OUT_OF_ROLE)),
)
# The same where one run computes much: each kind once, and usual values for what is special about them.
_TOO = (
    *((ValueKind.USUAL, LITERALS_VARIANT), (ValueKind.USUAL, TIES_VARIANT), (ValueKind.LARGE, 1)),
    *((ValueKind.HIDDEN_ROWS, 1), (ValueKind.HIDDEN_ROWS, HIDES_ALONE)),
)
_LEFT_OUT = (
    ValueKind.TINY,
    ValueKind.UNIFORM_LARGE,
    ValueKind.ORDERED,
)  # for wide and usual values tell most of what they do
COSTLY_SCHEDULE = tuple(item for item in FULL_SCHEDULE if (item[1] == 0 and item[0] not in _LEFT_OUT) or item in _TOO)
OTHER_SIZES_SCHEDULE = ((ValueKind.USUAL, 0), (ValueKind.WIDE, 0), (ValueKind.NON_FINITE, 0))
BRIEF_SCHEDULE = (
    *OTHER_SIZES_SCHEDULE,
    (ValueKind.SMALL, 0),
    (ValueKind.MAGNITUDES, 0),
    (ValueKind.UNIFORM_LARGE, 0),
)  # where its like is proved in full
SINGLE_RUN_SCHEDULE = ((ValueKind.USUAL, 0),)
MANY = 1000  # rows from which on sums of products of bytes leave what float32 holds
ROOM = MOST_PINS * PART_OF_PINS
REPEATED_SCHEDULE = tuple((ValueKind.USUAL, turn * VARIANT_STRIDE) for turn in range(1, 33))
WEIGHED = (ValueKind.ZEROS_AND_ONES, ValueKind.CONSTANT_ROWS, ValueKind.NON_FINITE)  # of weights that are made up
_TELLING = frozenset((ValueKind.USUAL, ValueKind.WIDE, ValueKind.LARGE, ValueKind.UNSIGNED, ValueKind.BENIGN))
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
LOSING = _OF_MAGNITUDES - {ValueKind.TINY} | {ValueKind.EXTREME}  # of which products overflow
_TINY = ("zeros", "denormals", "small")  # kinds for which a rule may differ, and then for what is faint too


def kinds_at_other_sizes(
    number: int, longest: int, *, has_room: bool, is_counted: bool, is_first: bool
) -> list[tuple[ValueKind, int]]:
    """The kinds at the other sizes, of which these are the `number`th.

    has_room: for all the region's own constants, and numbers of every magnitude.  is_counted: some size is 1, where
    counts that do not fit several batches run, or lengths count past and new rows.  longest: the largest
    dim.  is_first: of those with so large a one.
    """
    usual = [
        (ValueKind.USUAL, number * VARIANT_STRIDE + special)
        for special in ((LITERALS_VARIANT, TIES_VARIANT) if has_room else (0,))
    ]
    limits, counts = [(ValueKind.INTEGER_LIMITS, number)], [(ValueKind.COUNTS, 0)]
    magnitudes = [(ValueKind.MAGNITUDES, 0)] if has_room or is_first else []
    return [*usual, *(limits if has_room or longest >= MANY else ()), *magnitudes, *(counts if is_counted else ())]


def _some(ops: Iterable[str], is_so: Callable[[OpTraits], object]) -> bool:
    return any(is_so(guess_traits(op)) for op in ops)


def chooses(ops: Iterable[str]) -> bool:
    """Whether one of these operators makes truths of numbers, or chooses between tensors."""
    return _some(ops, lambda op: op.dtype.returns_bool or op.control.selectors or op.algebra.compares)


def adds_products(ops: Iterable[str]) -> bool:
    """Whether one of these operators adds up products: of large ones the order decides which of them overflow."""
    return _some(ops, lambda op: op.products.kind)


def adds_nothing(setting: DimAssignment, ops: Iterable[str]) -> bool:
    """Whether a sum of products may have no terms: some kernels hand on whatever is in memory then."""
    empty = [name for name, size in setting.by_symbol.items() if not size]
    return setting.is_empty and adds_products(ops) and any(dim_kind(name) != "past" for name in empty)


def products_of(graph: GraphProto) -> list[str]:
    """The tensors of a graph that are products of matrices, those of its nodes' bodies left out."""
    known = ((node, guess_node_traits(node)) for node in graph.node)
    return [name for node, op in known if op.products.kind in ("matmul", "einsum") for name in node.output]


def begins_at_zero(ops: Iterable[str]) -> bool:
    """Whether one of these operators adds up numbers: a kernel's own zero may come first, and has the sign it has."""
    return _some(ops, lambda op: op.numerics.accumulates or op.products.kind)


def _hides_small(ops: Iterable[str]) -> bool:
    """Whether of numbers of all magnitudes the large ones alone are seen in what one of these operators makes."""
    return _some(ops, lambda op: op.numerics.accumulates or op.numerics.is_max_like)


def _orders(ops: Iterable[str], *, squares: bool) -> bool:
    """Whether of numbers that are large throughout it hangs on the order of terms and factors what overflows."""
    return squares or adds_products(ops) or _hides_small(ops)


def reads_places(ops: Iterable[str]) -> bool:
    """Whether floats say where one of these operators reads: of far or tiny places a kernel's bounds decide."""
    return _some(ops, lambda op: op.indexing.reads_coordinates)


def _reads_any_places(ops: Iterable[str]) -> bool:
    """Whether floats that may be any say so: boxes are made as they are, beside whatever a picture holds."""
    return _some(ops, lambda op: op.indexing.reads_coordinates and op.indexing.boxes is None)


def has_absolute_error(op: OpTraits) -> bool:
    """Whether kernels of an operator err by a part of one, or by what lies between places, however small results are.

    What is small beside that is told apart where both sides of a region have such nodes alike.
    """
    return op.numerics.error_is_absolute or op.indexing.reads_coordinates


def absolute_error(ops: Collection[str], shape: tuple[int, ...], feeds: Mapping[str, np.ndarray]) -> float | np.ndarray:
    """What part of one kernels of these operators may err by: in all elements of a result of `shape`, or in each."""
    if not _some(ops, has_absolute_error):
        return 0.0
    part = input_magnitude(shape, feeds) if error_scales_with_input(ops) else None
    return 1.0 if part is None else part


def error_scales_with_input(ops: Collection[str]) -> bool:
    """Whether errors of a part of one are smaller in the same part where all that is given is below one."""
    return not _some(ops, lambda op: not op.numerics.error_is_input_scaled)


def overflows_in_doubles(values: ValueKind, dtype: np.dtype) -> bool:
    """Whether one over such an input is infinite in the reference too, as no dtype is wider than the result's."""
    return values is ValueKind.DENORMALS and dtype == np.float64


def kind_name(values: ValueKind) -> str:
    """What rules and reports call a kind of inputs."""
    return values.name.lower()


def told_limits(apart: Iterable[str], empty: str) -> str:
    """For what a proof does not speak, as a note; "" where there is nothing to say.

    apart: kinds of inputs where a rule differs on purpose.  empty: sizes, one of them 0, that the original alone takes.
    """
    kinds = " and ".join(sorted(apart))
    notes = (
        f"for all inputs but {kinds}, where the rule differs on purpose" if kinds else "",
        f"where a size is 0 ({empty}) the replacement does not run, and the original does" if empty else "",
    )
    return "; ".join(filter(None, notes))


def describe_inputs(values: ValueKind, feeds: Mapping[str, np.ndarray]) -> str:
    """What inputs were like, in brackets, for a sentence."""
    shapes = ", ".join(str(list(array.shape)) for array in feeds.values())
    return f" (inputs {values.description}, shapes {shapes}{_meant(values)})"


def _meant(values: ValueKind) -> str:
    """What the author of a rule writes who means it to differ for such inputs, as the end of a sentence.

    Only of those for which right rules differ too: what overflows, and what is no number; "" for all others.
    """
    kind = ValueKind.NON_FINITE if values is ValueKind.INFINITE else values
    if kind not in (ValueKind.NON_FINITE, ValueKind.EXTREME):
        return ""
    return f'; a rule that means this says differs={{"{kind_name(kind)}": "why"}}'


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
    """The kind that tells something of a region of these operators in the place of another; None where none does.

    inputs: how many may hold any number.  picks: whether there is a softmax of products, of which the order picks one
    where they overflow.  squares: whether numbers are multiplied by themselves, which overflow from a half of the
    exponents on.  divides: whether something is divided by what may be -1, which ends a process for the least integer,
    or something that may have been taken past the limits is divided.
    """
    if picks and values in (ValueKind.OFFSET, ValueKind.EXTREME):
        return ValueKind.SMALL_OFFSET if values is ValueKind.OFFSET else None
    if values is ValueKind.NON_FINITE and _some(ops, lambda op: op.numerics.reduces == "extremum"):
        return ValueKind.INFINITE if turn < ENDS or turn == NAN_FIRST else None  # of NaN, some places alone are seen
    if values is ValueKind.NON_FINITE and turn == NAN_FIRST:
        return None
    if values is ValueKind.MAGNITUDES:
        return None if reads_places(ops) else _of_magnitudes(turn, ops, inputs, picks=picks, squares=squares)
    if values is ValueKind.UNIFORM_LARGE and (_reads_any_places(ops) or (not picks and _orders(ops, squares=squares))):
        return None
    if values is ValueKind.INTEGER_LIMITS:
        # Where ONNX Runtime reduces integers to a sum, it stays at the end that it reaches: the order of terms decides.
        return ValueKind.SUMMABLE_INTEGERS if divides or _some(ops, lambda op: op.numerics.reduces == "sum") else values
    return values


def _of_magnitudes(turn: int, ops: Collection[str], inputs: int, *, picks: bool, squares: bool) -> ValueKind | None:
    """The kind for numbers of all magnitudes: from `ALONE` on one in which some inputs are usual, or no sum is huge.

    Of a sum over all elements, numbers of all magnitudes show the largest magnitudes only; where the results of one
    input turn with the last bit of another that is large (its cosine), nothing is seen of the first.
    """
    hides = picks or _hides_small(ops)
    if hides and (picks or squares or adds_products(ops)):
        return ValueKind.SAFE_ROW_MAGNITUDES if turn < ALONE else None
    if turn >= ALONE:
        return ValueKind.SAFE_ROW_MAGNITUDES if inputs > 1 or (hides and turn == ALONE) else None
    return (
        ValueKind.ROW_MAGNITUDES if hides else ValueKind.SAFE_MAGNITUDES if adds_products(ops) else ValueKind.MAGNITUDES
    )


def is_worth_trying(plan: InputGenerator, values: ValueKind, seed: int, apart: frozenset[str]) -> bool:
    """Whether inputs of a kind tell something: they differ from the usual ones, and no rule differs there on purpose.

    apart: the kinds for which a rule does.
    """
    if kind_name(values) in apart:
        return False
    if values is ValueKind.INFINITE and kind_name(ValueKind.NON_FINITE) in apart:
        return False
    if values in _OF_MAGNITUDES and kind_name(ValueKind.EXTREME) in apart:
        return False
    if values is ValueKind.TINY and any(kind in apart for kind in _TINY):
        return False
    if values is ValueKind.OUT_OF_ROLE and not apart.isdisjoint(map(kind_name, (*MASKED_KINDS, ValueKind.BACKWARDS))):
        return False
    if values is ValueKind.FRACTIONS and kind_name(ValueKind.NON_FINITE) in apart and seed % FRACTIONS == OF_NAN:
        return False
    if values in MASKED_KINDS and kind_name(ValueKind.NON_FINITE) in apart and hides_endlessly(seed):
        return False
    return values in _TELLING or plan.is_affected_by(values)
