"""Reductions of ONNX that are a function of a sum: ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum, ReduceLogSumExp.

No group has these rules: the CPU kernels of ONNX Runtime for most of these ops are slower than the nodes that they
replace, and other rules match the sums.
"""

from surgeon import Graph, Tensor, rule
from ..activations.naive_softmax import DIFFERS

FLOATS = ("float16", "float32")  # ONNX Runtime computes ReduceSumSquare of integers in floating point


def absolute_sum(g: Graph, x: Tensor, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
    """Σ |x|."""
    return g.reduce_sum(g.abs(x), axes, keepdims=keepdims)


def square_sum(g: Graph, x: Tensor, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
    """Σ x²."""
    return g.reduce_sum(g.square(x), axes, keepdims=keepdims)


def length(g: Graph, x: Tensor, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
    """√Σ x²."""
    squares = g.any_of(square_sum(g, x, axes, keepdims), g.reduce_sum_square(x, axes, keepdims=keepdims))
    return g.square_root(squares)


def log_sum(g: Graph, x: Tensor, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
    """log Σ x."""
    return g.log(g.reduce_sum(x, axes, keepdims=keepdims))


def log_sum_exp(g: Graph, x: Tensor, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
    """log Σ exp(x)."""
    power = g.exp(x)
    return g.any_of(log_sum(g, power, axes, keepdims), g.reduce_log_sum(power, axes, keepdims=keepdims))


@rule(patterns=[absolute_sum], target="any", dtypes=(*FLOATS, "int32", "int64"))
def reduce_l1(g: Graph, x: Tensor, axes: list[int] | None, keepdims: int) -> Tensor:
    """Fuse a sum of absolute values into one ReduceL1 node.

    What: Σ |x| over any axes.
    Numerics: rounding only.
    """
    return g.reduce_l1(x, axes, keepdims=keepdims)


@rule(patterns=[square_sum], target="any", dtypes=FLOATS)
def reduce_sum_square(g: Graph, x: Tensor, axes: list[int] | None, keepdims: int) -> Tensor:
    """Fuse a sum of squares into one ReduceSumSquare node.

    What: Σ x² over any axes.
    Numerics: rounding only.
    """
    return g.reduce_sum_square(x, axes, keepdims=keepdims)


@rule(patterns=[length], target="any", dtypes=FLOATS)
def reduce_l2(g: Graph, x: Tensor, axes: list[int] | None, keepdims: int) -> Tensor:
    """Fuse the root of a sum of squares into one ReduceL2 node.

    What: √Σ x² over any axes.
    Numerics: rounding only.
    """
    return g.reduce_l2(x, axes, keepdims=keepdims)


@rule(patterns=[log_sum], target="any", dtypes=FLOATS)
def reduce_log_sum(g: Graph, x: Tensor, axes: list[int] | None, keepdims: int) -> Tensor:
    """Fuse the logarithm of a sum into one ReduceLogSum node.

    What: log Σ x over any axes.
    Numerics: rounding only.
    """
    return g.reduce_log_sum(x, axes, keepdims=keepdims)


@rule(patterns=[log_sum_exp], target="any", dtypes=FLOATS, differs=DIFFERS)
def reduce_log_sum_exp(g: Graph, x: Tensor, axes: list[int] | None, keepdims: int) -> Tensor:
    """Fuse the logarithm of a sum of exponentials into one ReduceLogSumExp node.

    What: log Σ exp(x) over any axes.
    Numerics: rounding only as long as exp(x) does not overflow.  If it overflows, only the fused node is correct.
    """
    return g.reduce_log_sum_exp(x, axes, keepdims=keepdims)
