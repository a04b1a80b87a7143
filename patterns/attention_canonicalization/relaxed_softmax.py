"""Softmax of scores that are made small, less their largest, and made large again, as half precision wants it."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule
from .._common.axes import negative_axes

DIFFERS = {
    "extreme": "a score times the factor is infinite, of which the difference to the largest is not",
    "non_finite": "of a row with an infinite score, which weights are no numbers may differ",
}


class Relaxed(Captures):
    """Scores, the axes of their largest, where that is put back, by what the difference is multiplied, and the axis."""

    x: Tensor
    axes: list[int]
    again: list[int] | Any = None
    scale: float = 1.0
    axis: int


def apart(g: Graph, m: Relaxed) -> Tensor:
    """softmax((x − max x) · scale), where the maximum loses its axis for a while or not."""
    lost = g.unsqueeze(g.reduce_max(m.x, m.axes, keepdims=0), m.again)
    rest = g.any_of(g.sub(m.x, lost), g.sub(m.x, g.maximum_over(m.x, m.axes)))
    return g.softmax(g.any_of(g.mul(rest, m.scale), rest), axis=m.axis)


@rule(patterns=[apart], target="any", opset=13, differs=DIFFERS)
def relaxed_softmax(g: Graph, m: Relaxed) -> Tensor:
    """Leave the maximum to the Softmax, which takes it off itself, behind the factor that the difference has.

    What: softmax((x − max x) · c), as CogView (Ding et al., arXiv:2105.13290) and LayoutLMv3 have it.
    Numerics: rounding only, as long as x · c is finite: in float16 it may not be, so that these stay.
    """
    require(m.x.rank is not None, "the rank of the scores is unknown")
    axis = negative_axes(m.x, [m.axis])
    require(
        negative_axes(m.x, m.axes) == axis == negative_axes(m.x, m.again or m.axes), "the maximum is over other axes"
    )
    require(m.scale > 0, "the factor turns the order of the scores")
    require(m.scale == 1 or str(m.x.dtype) != "float16", "the product may be too large for float16")
    return g.softmax(m.x if m.scale == 1 else g.mul(m.x, m.scale), axis=m.axis)
