"""Softmax and its logarithm, written without subtracting the maximum first, so that they overflow early."""

from surgeon import Graph, Tensor, rule
from .softmax import axis_for_opset, has_one_axis, no_double

DIFFERS = {
    "extreme": "exp(x) overflows from x = 88.7 on in float32, but the fused node subtracts the maximum first",
    "non_finite": "next to an x of +∞ the other results are 0, or −∞ as logarithms, but the fused node gives NaN",
}


def quotient(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    """exp(x) / Σ exp(x)."""
    power = g.exp(x)
    return g.div(power, g.sum_over(power, axes))


def by_difference(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    """exp(x − log Σ exp(x)).  The logarithm of the sum is one node."""
    return g.exp(g.sub(x, g.reduce_log_sum_exp(x, axes=axes, keepdims=1)))


def difference(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    """x − log Σ exp(x)."""
    total = g.any_of(
        g.reduce_log_sum_exp(x, axes=axes, keepdims=1),
        g.log(g.sum_over(g.exp(x), axes)),
    )
    return g.sub(x, total)


@rule(patterns=[quotient, by_difference], conditions=[has_one_axis], target="onnx", differs=DIFFERS)
def naive_softmax(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    """Fuse exp(x) / Σ exp(x) into one Softmax node.

    What: the sum is over one axis, and no maximum is subtracted.
    Numerics: rounding only as long as exp(x) does not overflow.  If it overflows, only the fused node is correct.
    """
    return g.softmax(x, axis=axis_for_opset(g, x, axes))


@rule(patterns=[difference], conditions=[has_one_axis, no_double], target="onnx", differs=DIFFERS)
def naive_log_softmax(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    """Fuse x − log Σ exp(x) into one LogSoftmax node.

    What: the sum is over one axis, and no maximum is subtracted.  ReduceLogSumExp matches too.
    Numerics: rounding only as long as exp(x) does not overflow.  If it overflows, only the fused node is correct.
    """
    return g.log_softmax(x, axis=axis_for_opset(g, x, axes))
