"""Softmax and its logarithm from exponentials and sums."""

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
    """Below opset 13, Softmax flattens x to a matrix at its axis, which is a softmax along it only where it is last."""
    axes = [axis] if axes == () else axes or []
    has_explicit_axes(axes)
    require(len(axes) == 1, "the sum must be over one axis")
    if match.opset < 13:
        require(negative_axes(x, axes) == [-1], "below opset 13 Softmax flattens all axes from its own on into one")


def axis_for_opset(g: Graph, x: Tensor, axes: Sequence[int]) -> int:
    """The axis as the opset takes it: below 11 none that counts from the end."""
    if g.opset > 10 or axes[0] >= 0:
        return axes[0]
    require(x.rank is not None, "below opset 11 the axis counts from the front, and the rank of x is unknown")
    return axes[0] + len(x.shape)


@rule(patterns=[quotient], conditions=[has_one_axis], target="onnx", form_patterns=[node])
def softmax(g: Graph, x: Tensor, axes: list[int]) -> Tensor:
    """Fuse exp(x − max x) / Σ exp(x − max x) into one Softmax node.

    What: the maximum and the sum over one axis; from half precision they may be taken in float32.
    Numerics: rounding only.  A quotient without the maximum is left as it is: where one x is infinite, it is 0 for the
    others, while Softmax is NaN.
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
    """Leave the maximum to the Softmax, which takes it off itself.

    What: softmax(x − max x), as attentions have it that are written to be stable (lucidrains); they are found then.
    Numerics: rounding only.
    """
    require(negative_axes(x, axes) == negative_axes(x, [axis]), "the maximum is over other axes than the softmax")
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
    """ONNX Runtime's LogSoftmax of doubles is another than that of floats beside an infinite x."""
    require(x.dtype != "float64", "beside an infinity LogSoftmax of doubles is -inf, where its parts are NaN")


@rule(patterns=[difference, logarithm], conditions=[has_one_axis, no_double], target="onnx", form_patterns=[log_node])
def log_softmax(g: Graph, x: Tensor, axes: list[int] | None = None, axis: int = -1) -> Tensor:
    """Fuse the logarithm of a softmax into one LogSoftmax node.

    What: log(softmax(x)), and (x − max x) − log Σ exp(x − max x).
    Numerics: rounding only; where log(softmax(x)) is −∞ because the softmax underflows, the one node is right.
    x − log Σ exp(x) is left as it is: where one x is infinite, it is −∞ for the others, while LogSoftmax is NaN.
    """
    return g.log_softmax(x, axis=axis_for_opset(g, x, [axis] if axes is None else axes))


@log_softmax.on("decomposed")
def _(g: Graph, x: Tensor, axis: int) -> Tensor:
    return difference(g, x, [axis])
