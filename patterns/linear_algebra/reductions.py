"""Reductions of ONNX that are a function of a sum: ReduceL1, ReduceL2, ReduceSumSquare and ReduceLogSum.

No group has this rule: the CPU kernels of ONNX Runtime for most of these ops are slower than the nodes that they
replace, and other rules match the sums.
"""

from surgeon import Graph, Match, Tensor, rule


def reduce_l1(g: Graph, x: Tensor, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
    """Σ |x|."""
    return g.reduce_sum(g.abs(x), axes, keepdims=keepdims)


def reduce_sum_square(g: Graph, x: Tensor, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
    """Σ x²."""
    return g.reduce_sum(g.square(x), axes, keepdims=keepdims)


def reduce_l2(g: Graph, x: Tensor, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
    """√Σ x²."""
    squares = reduce_sum_square(g, x, axes, keepdims)
    return g.square_root(g.any_of(squares, g.reduce_sum_square(x, axes, keepdims=keepdims)))


def reduce_log_sum(g: Graph, x: Tensor, axes: list[int] | None = None, keepdims: int = 1) -> Tensor:
    """log Σ x."""
    return g.log(g.reduce_sum(x, axes, keepdims=keepdims))


@rule(
    patterns=[reduce_l2, reduce_l1, reduce_sum_square, reduce_log_sum],
    target="any",
    dtypes=("float16", "float32"),  # ONNX Runtime computes ReduceSumSquare of integers in floating point
)
def reductions(g: Graph, match: Match, x: Tensor, axes: list[int] | None, keepdims: int) -> Tensor:
    """Fuse a sum and the function before or after it into one reduction node.

    What: Σ |x| as ReduceL1, Σ x² as ReduceSumSquare, √Σ x² as ReduceL2, and log Σ x as ReduceLogSum, over any axes.
    Numerics: rounding only.
    """
    made: Tensor = getattr(g, match.pattern.name)(x, axes, keepdims=keepdims)
    return made
