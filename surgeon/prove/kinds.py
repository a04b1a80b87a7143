"""Which kinds of inputs a region is run on, in which order, and which of them tell something of it."""

from collections.abc import Collection, Iterable

from surgeon.feeding.hiding import hides_endlessly
from surgeon.feeding.inputs import InputPlan, Values
from surgeon.feeding.wants import MASKED_KINDS

SPOKEN_OF, TIES = 2, 3  # turns of usual values that hold the region's own constants too, and what lies between steps
# At the first sizes, and at the others.
FIRST = (
    *((Values.USUAL, turn) for turn in range(4)),
    (Values.WIDE, 0),
    (Values.LARGE, 1),
    (Values.ZEROS, 0),
    (Values.DENORMALS, 0),
    (Values.CONSTANT_ROWS, 0),
    *((Values.OFFSET, turn) for turn in range(2)),
    (Values.SMALL, 0),
    (Values.FAR, 0),
    *((Values.EXTREME, turn) for turn in range(2)),
    *((Values.NON_FINITE, turn) for turn in range(2)),
    *((Values.MAGNITUDES, turn) for turn in range(2)),
    *((Values.HOLES, turn) for turn in range(3)),
    *((Values.HIDDEN_ROWS, turn) for turn in range(4)),
    (Values.BACKWARDS, 0),
    (Values.LIMITS, 0),
)
# The same where one run computes much: each kind once, and usual values for what is special about them.
_TOO = ((Values.USUAL, SPOKEN_OF), (Values.USUAL, TIES), (Values.LARGE, 1), (Values.HIDDEN_ROWS, 1))
COSTLY = tuple(item for item in FIRST if item[1] == 0 or item in _TOO)
OTHERS = ((Values.USUAL, 0), (Values.WIDE, 0), (Values.NON_FINITE, 0))
FURTHER = ((Values.USUAL, 0),)
WEIGHED = (Values.PATTERNS, Values.CONSTANT_ROWS, Values.NON_FINITE)  # of weights that are made up
_TELLING = frozenset((Values.USUAL, Values.WIDE, Values.LARGE, Values.UNSIGNED, Values.TAME))
_DIVIDING = frozenset(("Div", "Mod"))
# Parts of the names of operators that add up products: of large ones the order decides which of them overflow.
_ADDING_PRODUCTS = ("MatMul", "Gemm", "Einsum", "Conv", "conv", "Attention", "RNN", "GRU", "LSTM")
_ADDING_UP = ("ReduceMean", "ReduceL", "Norm", "Softmax", "CumSum", "Pool")
# Kernels of these err by a part of one, however small their results are.
_OF_ONE = frozenset(
    (
        *("Sigmoid", "Tanh", "Erf", "Exp", "Softplus", "Softsign", "Gelu", "FastGelu", "QuickGelu", "BiasGelu", "Mish"),
        *("Softmax", "LogSoftmax", "Log", "Elu", "Selu", "Celu", "Swish", "Sin", "Cos", "HardSigmoid"),
    )
)


def adds_products(ops: Iterable[str]) -> bool:
    """Whether one of these operators adds up products."""
    return any(part in op for op in ops for part in _ADDING_PRODUCTS)


def _adds_up(ops: Iterable[str]) -> bool:
    """Whether one of these operators adds up a tensor: beside numbers of all magnitudes doubles lose the small ones."""
    return any(part in op for op in ops for part in _ADDING_UP)


def reads_places(ops: Iterable[str]) -> bool:
    """Whether floats say where one of these operators reads: of far or tiny places a kernel's bounds decide."""
    return any("eform" in op or op in ("GridSample", "RoiAlign") for op in ops)


def errs_by_a_part_of_one(ops: Iterable[str]) -> bool:
    """Whether one of these operators is computed to an absolute precision."""
    return not _OF_ONE.isdisjoint(ops)


def name_of_kind(values: Values) -> str:
    """What rules and reports call a kind of inputs."""
    return values.name.lower()


def suited(values: Values, ops: Collection[str], *, picks: bool) -> Values | None:
    """The kind that tells something of a region of these operators in the place of another; None where none does.

    picks: whether there is a softmax of products, of which the order picks one where they overflow.
    """
    if picks and values in (Values.OFFSET, Values.EXTREME):
        return Values.NEAR if values is Values.OFFSET else None
    if values is Values.MAGNITUDES:
        if picks or reads_places(ops) or _adds_up(ops):
            return None
        return Values.FACTORS if adds_products(ops) else values
    if values is Values.LIMITS:
        if _adds_up(ops) or "ReduceSum" in ops:
            return Values.SUMMED  # ONNX Runtime's sums of integers do not wrap: they stay at the end that they reach
        return None if not _DIVIDING.isdisjoint(ops) else values  # what is divided may be taken past the limits
    return values


def is_tried(plan: InputPlan, values: Values, seed: int, apart: Collection[str]) -> bool:
    """Whether inputs of a kind tell something: they differ from the usual ones, and no rule differs there on purpose.

    apart: the kinds for which a rule does.
    """
    if name_of_kind(values) in apart:
        return False
    if values in (Values.MAGNITUDES, Values.FACTORS) and name_of_kind(Values.EXTREME) in apart:
        return False
    if values in MASKED_KINDS and name_of_kind(Values.NON_FINITE) in apart and hides_endlessly(seed):
        return False
    return values in _TELLING or plan.answers_to(values)
