"""Softmax of scores that are scaled down, reduced by their maximum and scaled up again, as half precision requires."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule
from .._common.axes import negative_axes

DIFFERS = {
    "extreme": "a score times the factor is infinite, but its difference from the maximum is not",
    "non_finite": "in a row with an infinite score, other weights may be NaN",
}


class Relaxed(Captures):
    """Scores, the axes of their maximum, the axes that are reinserted, the factor of the difference, and the axis."""

    x: Tensor
    axes: list[int]
    again: list[int] | Any = None
    scale: float = 1.0
    axis: int


def apart(g: Graph, m: Relaxed) -> Tensor:
    """softmax((x − max x) · scale).  The maximum may lose its axis temporarily."""
    lost = g.unsqueeze(g.reduce_max(m.x, m.axes, keepdims=0), m.again)
    rest = g.any_of(g.sub(m.x, lost), g.sub(m.x, g.maximum_over(m.x, m.axes)))
    return g.softmax(g.any_of(g.mul(rest, m.scale), rest), axis=m.axis)


@rule(patterns=[apart], target="any", opset=13, differs=DIFFERS)
def relaxed_softmax(g: Graph, m: Relaxed) -> Tensor:
    """Remove the subtraction of the maximum before a Softmax, which subtracts it anyway, and keep the factor.

    What: softmax((x − max x) · c), as in CogView (Ding et al., arXiv:2105.13290) and LayoutLMv3.
    Numerics: rounding only as long as x · c is finite.  In float16 it may overflow, so the rule does not match there.
    """
    require(m.x.rank is not None, "the rank of the scores is unknown")
    axis = negative_axes(m.x, [m.axis])
    require(
        negative_axes(m.x, m.axes) == axis == negative_axes(m.x, m.again or m.axes),
        "the maximum must be over the axis of the softmax",
    )
    require(m.scale > 0, "the factor must be positive, otherwise it reverses the order of the scores")
    require(m.scale == 1 or str(m.x.dtype) != "float16", "the product may be too large for float16")
    return g.softmax(m.x if m.scale == 1 else g.mul(m.x, m.scale), axis=m.axis)
