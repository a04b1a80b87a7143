"""Which kinds of inputs a region is run on, in which order, and which of them tell something of it."""

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
from onnx import GraphProto

from surgeon.ops.traits.op_traits import Op
from surgeon.ops.traits.trait_lookup import likened, likened_node
from surgeon.proof.cases.dim_assignment import Setting
from surgeon.runtime.inputs.fractional_values import OF_NAN
from surgeon.runtime.inputs.fractional_values import TURNS as FRACTIONS
from surgeon.runtime.inputs.input_generator import InputPlan, Values
from surgeon.runtime.inputs.input_spec import MASKED_KINDS
from surgeon.runtime.inputs.mask_values import WAYS_TO_HIDE, hides_endlessly
from surgeon.runtime.numerics.magnitude_classes import reach
from surgeon.shapes.constraints.input_dims import kind_of

TWINS, PART_OF_TWINS = 1, 1 / 8  # the turn of usual values of which some are alike in two inputs, and how many are
ANEW = 4  # turns from one of these sizes to the next: other numbers, for the same purpose
SPOKEN_OF, TIES = 2, 3  # turns of usual values that hold the region's own constants too, and what lies between steps
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
FIRST = (
    *((Values.USUAL, turn) for turn in range(4)),
    (Values.WIDE, 0),
    (Values.LARGE, 1),
    *((Values.ZEROS, turn) for turn in (0, *ZEROS_BESIDE)),
    (Values.DENORMALS, 0),
    (Values.CONSTANT_ROWS, 0),
    *((Values.OFFSET, turn) for turn in range(2)),
    *((Values.ORDERED, turn) for turn in ORDERS),
    (Values.SMALL, 0),
    (Values.FAR, 0),
    *((Values.EXTREME, turn) for turn in range(2)),
    *((Values.NON_FINITE, turn) for turn in (*range(ENDS), NAN_FIRST, *BESIDE_BITS, *BESIDE_USUAL)),
    *((Values.MAGNITUDES, turn) for turn in range(ALONE + 2)),
    (Values.FAINT, 0),
    (Values.LOUD, 0),
    *((Values.HOLES, turn) for turn in range(3)),
    *((Values.HIDDEN_ROWS, turn) for turn in range(HIDES_ALONE + WAYS_TO_HIDE * MOST_HIDING)),
    (Values.BACKWARDS, 0),
    (Values.LIMITS, 0),
    *((Values.COUNTS, turn) for turn in range(COUNTED)),
    *((Values.FRACTIONS, turn) for turn in range(FRACTIONS)),
    *((Values.OUT_OF_ROLE, turn) for turn in range(PINS_OUT_OF_ROLE)),
)
# The same where one run computes much: each kind once, and usual values for what is special about them.
_TOO = (
    *((Values.USUAL, SPOKEN_OF), (Values.USUAL, TIES), (Values.LARGE, 1)),
    *((Values.HIDDEN_ROWS, 1), (Values.HIDDEN_ROWS, HIDES_ALONE)),
)
_LEFT_OUT = (Values.FAINT, Values.LOUD, Values.ORDERED)  # for wide and usual values tell most of what they do
COSTLY = tuple(item for item in FIRST if (item[1] == 0 and item[0] not in _LEFT_OUT) or item in _TOO)
OTHERS = ((Values.USUAL, 0), (Values.WIDE, 0), (Values.NON_FINITE, 0))
BRIEF = (*OTHERS, (Values.SMALL, 0), (Values.MAGNITUDES, 0), (Values.LOUD, 0))  # where its like is proved in full
FURTHER = ((Values.USUAL, 0),)
MANY = 1000  # rows from which on sums of products of bytes leave what float32 holds
ROOM = MOST_PINS * PART_OF_PINS
OFTEN = tuple((Values.USUAL, turn * ANEW) for turn in range(1, 33))
WEIGHED = (Values.PATTERNS, Values.CONSTANT_ROWS, Values.NON_FINITE)  # of weights that are made up
_TELLING = frozenset((Values.USUAL, Values.WIDE, Values.LARGE, Values.UNSIGNED, Values.TAME))
_OF_MAGNITUDES = frozenset(
    (Values.MAGNITUDES, Values.FACTORS, Values.ROWS, Values.ROWS_OF_FACTORS, Values.FAINT, Values.LOUD)
)
LOSING = _OF_MAGNITUDES - {Values.FAINT} | {Values.EXTREME}  # of which products overflow
_TINY = ("zeros", "denormals", "small")  # kinds for which a rule may differ, and then for what is faint too


def kinds_further(
    number: int, longest: int, *, has_room: bool, is_counted: bool, is_first: bool
) -> list[tuple[Values, int]]:
    """The kinds at the other sizes, of which these are the `number`th.

    has_room: for all the region's own constants, and numbers of every magnitude.  is_counted: some size is 1, where
    counts that do not fit several batches run, or lengths count past and new rows.  longest: the largest
    dim.  is_first: of those with so large a one.
    """
    usual = [(Values.USUAL, number * ANEW + special) for special in ((SPOKEN_OF, TIES) if has_room else (0,))]
    limits, counts = [(Values.LIMITS, number)], [(Values.COUNTS, 0)]
    magnitudes = [(Values.MAGNITUDES, 0)] if has_room or is_first else []
    return [*usual, *(limits if has_room or longest >= MANY else ()), *magnitudes, *(counts if is_counted else ())]


def _some(ops: Iterable[str], is_so: Callable[[Op], object]) -> bool:
    return any(is_so(likened(op)) for op in ops)


def chooses(ops: Iterable[str]) -> bool:
    """Whether one of these operators makes truths of numbers, or chooses between tensors."""
    return _some(ops, lambda op: op.truths or op.chooses or op.compares)


def adds_products(ops: Iterable[str]) -> bool:
    """Whether one of these operators adds up products: of large ones the order decides which of them overflow."""
    return _some(ops, lambda op: op.product)


def adds_nothing(setting: Setting, ops: Iterable[str]) -> bool:
    """Whether a sum of products may have no terms: some kernels hand on whatever is in memory then."""
    empty = [name for name, size in setting.by_symbol.items() if not size]
    return setting.is_empty and adds_products(ops) and any(kind_of(name) != "past" for name in empty)


def products_of(graph: GraphProto) -> list[str]:
    """The tensors of a graph that are products of matrices, those of its nodes' bodies left out."""
    known = ((node, likened_node(node)) for node in graph.node)
    return [name for node, op in known if op.product in ("matrices", "equation") for name in node.output]


def begins_at_zero(ops: Iterable[str]) -> bool:
    """Whether one of these operators adds up numbers: a kernel's own zero may come first, and has the sign it has."""
    return _some(ops, lambda op: op.adds_up or op.product)


def _hides_small(ops: Iterable[str]) -> bool:
    """Whether of numbers of all magnitudes the large ones alone are seen in what one of these operators makes."""
    return _some(ops, lambda op: op.adds_up or op.picks)


def _orders(ops: Iterable[str], *, squares: bool) -> bool:
    """Whether of numbers that are large throughout it hangs on the order of terms and factors what overflows."""
    return squares or adds_products(ops) or _hides_small(ops)


def reads_places(ops: Iterable[str]) -> bool:
    """Whether floats say where one of these operators reads: of far or tiny places a kernel's bounds decide."""
    return _some(ops, lambda op: op.reads_places)


def _reads_any_places(ops: Iterable[str]) -> bool:
    """Whether floats that may be any say so: boxes are made as they are, beside whatever a picture holds."""
    return _some(ops, lambda op: op.reads_places and op.boxes is None)


def errs_absolutely(op: Op) -> bool:
    """Whether kernels of an operator err by a part of one, or by what lies between places, however small results are.

    What is small beside that is told apart where both sides of a region have such nodes alike.
    """
    return op.of_one or op.reads_places


def part_of_one(ops: Collection[str], shape: tuple[int, ...], feeds: Mapping[str, np.ndarray]) -> float | np.ndarray:
    """What part of one kernels of these operators may err by: in all elements of a result of `shape`, or in each."""
    if not _some(ops, errs_absolutely):
        return 0.0
    part = reach(shape, feeds) if err_to_scale(ops) else None
    return 1.0 if part is None else part


def err_to_scale(ops: Collection[str]) -> bool:
    """Whether errors of a part of one are smaller in the same part where all that is given is below one."""
    return not _some(ops, lambda op: not op.to_scale)


def overflows_in_doubles(values: Values, dtype: np.dtype) -> bool:
    """Whether one over such an input is infinite in the reference too, as no dtype is wider than the result's."""
    return values is Values.DENORMALS and dtype == np.float64


def name_of_kind(values: Values) -> str:
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


def told_inputs(values: Values, feeds: Mapping[str, np.ndarray]) -> str:
    """What inputs were like, in brackets, for a sentence."""
    shapes = ", ".join(str(list(array.shape)) for array in feeds.values())
    return f" (inputs {values.words}, shapes {shapes}{_meant(values)})"


def _meant(values: Values) -> str:
    """What the author of a rule writes who means it to differ for such inputs, as the end of a sentence.

    Only of those for which right rules differ too: what overflows, and what is no number; "" for all others.
    """
    kind = Values.NON_FINITE if values is Values.ENDLESS else values
    if kind not in (Values.NON_FINITE, Values.EXTREME):
        return ""
    return f'; a rule that means this says differs={{"{name_of_kind(kind)}": "why"}}'


def suited(
    values: Values,
    turn: int,
    ops: Collection[str],
    inputs: int,
    *,
    picks: bool,
    squares: bool,
    divides: bool = False,
) -> Values | None:
    """The kind that tells something of a region of these operators in the place of another; None where none does.

    inputs: how many may hold any number.  picks: whether there is a softmax of products, of which the order picks one
    where they overflow.  squares: whether numbers are multiplied by themselves, which overflow from a half of the
    exponents on.  divides: whether something is divided by what may be -1, which ends a process for the least integer,
    or something that may have been taken past the limits is divided.
    """
    if picks and values in (Values.OFFSET, Values.EXTREME):
        return Values.NEAR if values is Values.OFFSET else None
    if values is Values.NON_FINITE and _some(ops, lambda op: op.reduces == "pick"):
        return Values.ENDLESS if turn < ENDS or turn == NAN_FIRST else None  # of NaN, some places alone are seen
    if values is Values.NON_FINITE and turn == NAN_FIRST:
        return None
    if values is Values.MAGNITUDES:
        return None if reads_places(ops) else _of_magnitudes(turn, ops, inputs, picks=picks, squares=squares)
    if values is Values.LOUD and (_reads_any_places(ops) or (not picks and _orders(ops, squares=squares))):
        return None
    if values is Values.LIMITS:
        # Where ONNX Runtime reduces integers to a sum, it stays at the end that it reaches: the order of terms decides.
        return Values.SUMMED if divides or _some(ops, lambda op: op.reduces == "sum") else values
    return values


def _of_magnitudes(turn: int, ops: Collection[str], inputs: int, *, picks: bool, squares: bool) -> Values | None:
    """The kind for numbers of all magnitudes: from `ALONE` on one in which some inputs are usual, or no sum is huge.

    Of a sum over all elements, numbers of all magnitudes show the largest magnitudes only; where the results of one
    input turn with the last bit of another that is large (its cosine), nothing is seen of the first.
    """
    hides = picks or _hides_small(ops)
    if hides and (picks or squares or adds_products(ops)):
        return Values.ROWS_OF_FACTORS if turn < ALONE else None
    if turn >= ALONE:
        return Values.ROWS_OF_FACTORS if inputs > 1 or (hides and turn == ALONE) else None
    return Values.ROWS if hides else Values.FACTORS if adds_products(ops) else Values.MAGNITUDES


def is_tried(plan: InputPlan, values: Values, seed: int, apart: frozenset[str]) -> bool:
    """Whether inputs of a kind tell something: they differ from the usual ones, and no rule differs there on purpose.

    apart: the kinds for which a rule does.
    """
    if name_of_kind(values) in apart:
        return False
    if values is Values.ENDLESS and name_of_kind(Values.NON_FINITE) in apart:
        return False
    if values in _OF_MAGNITUDES and name_of_kind(Values.EXTREME) in apart:
        return False
    if values is Values.FAINT and any(kind in apart for kind in _TINY):
        return False
    if values is Values.OUT_OF_ROLE and not apart.isdisjoint(map(name_of_kind, (*MASKED_KINDS, Values.BACKWARDS))):
        return False
    if values is Values.FRACTIONS and name_of_kind(Values.NON_FINITE) in apart and seed % FRACTIONS == OF_NAN:
        return False
    if values in MASKED_KINDS and name_of_kind(Values.NON_FINITE) in apart and hides_endlessly(seed):
        return False
    return values in _TELLING or plan.answers_to(values)
