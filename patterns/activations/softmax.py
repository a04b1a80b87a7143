"""Softmax and its logarithm, computed from exponentials and sums."""

from collections.abc import Sequence

from surgeon import Graph, Match, Tensor, require, rule
from .._common.axes import has_explicit_axes, negative_axes


def quotient(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    """exp(x − max x) / Σ exp(x − max x)."""
    power = g.exp(g.sub(x, g.maximum_over(x, axes)))
    return g.div(power, g.sum_over(power, axes))


def node(g: Graph, x: Tensor, axis: int) -> Tensor:
    """Softmax along an axis."""
    return g.softmax(x, axis=axis)


def has_one_axis(x: Tensor, match: Match, axes: Sequence[int] | None = (), axis: int = 0) -> None:
    """Require one axis, and below opset 13 the last one: there Softmax flattens x to a matrix at its axis."""
    axes = [axis] if axes == () else axes or []
    has_explicit_axes(axes)
    require(len(axes) == 1, "the sum must be over one axis")
    if match.opset < 13:
        require(
            negative_axes(x, axes) == [-1],
            "below opset 13 Softmax flattens all axes from its axis on, so the axis must be the last one",
        )


def axis_for_opset(g: Graph, x: Tensor, axes: Sequence[int]) -> int:
    """Return the axis in the form that the opset requires: below 11 it must not be negative."""
    if g.opset > 10 or axes[0] >= 0:
        return axes[0]
    require(x.rank is not None, "below opset 11 the axis must not be negative, and the rank of x is unknown")
    return axes[0] + len(x.shape)


@rule(patterns=[quotient], conditions=[has_one_axis], target="onnx", form_patterns=[node])
def softmax(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    """Fuse exp(x − max x) / Σ exp(x − max x) into one Softmax node.

    What: the maximum and the sum over one axis.  For half precision they may be computed in float32.
    Numerics: rounding only.  The rule does not match a quotient without the maximum: if one x is infinite, the quotient
    is 0 for the others, but Softmax gives NaN.
    TensorRT: Softmax is one layer.
    """
    return g.softmax(x, axis=axis_for_opset(g, x, axes))


@softmax.on("decomposed")
def _(g: Graph, x: Tensor, axis: int) -> Tensor:
    return quotient(g, x, [axis])


def shifted(g: Graph, x: Tensor, axes: list[int], axis: int) -> Tensor:
    """softmax(x − max x)."""
    return g.softmax(g.sub(x, g.maximum_over(x, axes)), axis=axis)


@rule(patterns=[shifted], conditions=[has_one_axis], target="any")
def max_subtracted_softmax(g: Graph, x: Tensor, axes: list[int], axis: int) -> Tensor:
    """Remove the subtraction of the maximum before a Softmax, which subtracts it anyway.

    What: softmax(x − max x), as in attention that is written to be numerically stable (lucidrains).  The attention
    rules match it afterwards.
    Numerics: rounding only.
    """
    require(negative_axes(x, axes) == negative_axes(x, [axis]), "the maximum and the softmax are over different axes")
    return g.softmax(x, axis=axis)


def logarithm(g: Graph, x: Tensor, axis: int) -> Tensor:
    """log(softmax(x))."""
    return g.log(g.softmax(x, axis=axis))


def difference(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    """(x − max x) − log Σ exp(x − max x)."""
    below = g.sub(x, g.maximum_over(x, axes))
    return g.sub(below, g.log(g.sum_over(g.exp(below), axes)))


def log_node(g: Graph, x: Tensor, axis: int) -> Tensor:
    """LogSoftmax along an axis."""
    return g.log_softmax(x, axis=axis)


def no_double(x: Tensor) -> None:
    """Refuse doubles: next to an infinite x, LogSoftmax of ONNX Runtime differs between float64 and float32."""
    require(
        x.dtype != "float64", "next to an infinity LogSoftmax of float64 gives -inf, but the decomposed form gives NaN"
    )


@rule(patterns=[difference, logarithm], conditions=[has_one_axis, no_double], target="onnx", form_patterns=[log_node])
def log_softmax(g: Graph, x: Tensor, axes: list[int] | None = None, axis: int = -1) -> Tensor:
    """Fuse the logarithm of a softmax into one LogSoftmax node.

    What: log(softmax(x)), and (x − max x) − log Σ exp(x − max x).
    Numerics: rounding only.  If the softmax underflows, log(softmax(x)) is −∞, and only the fused node is correct.  The
    rule does not match x − log Σ exp(x): if one x is infinite, that is −∞ for the others, but LogSoftmax gives NaN.
    """
    return g.log_softmax(x, axis=axis_for_opset(g, x, [axis] if axes is None else axes))


@log_softmax.on("decomposed")
def _(g: Graph, x: Tensor, axis: int) -> Tensor:
    return difference(g, x, [axis])
