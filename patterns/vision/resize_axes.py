"""Images resized along given axes, for targets that need a scale for every axis."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from ._interpolation import string_attribute


class Named(Captures):
    """Images, scales or sizes for some axes, and the attributes of the Resize."""

    x: Tensor
    scales: Constant | Any = None
    sizes: Tensor | Any = None
    axes: list[int] | Any = None
    attributes: dict[str, Any]


def resized(g: Graph, m: Named) -> Tensor:
    """Resize with explicit axes."""
    return g.resize(m.x, None, m.scales, m.sizes, axes=m.axes, **m.attributes)


@rule(patterns=[resized], target="any", opset=18, lacking=True)
def resize_axes(g: Graph, m: Named) -> Tensor:
    """Give a Resize the sizes or scales of all axes, if the target does not support sizes or scales of some axes.

    What: the current sizes of the other axes, or scales of 1.
    Numerics: none.
    TensorRT: its parser refuses sizes of some axes if another axis is dynamic, and scales of some axes.
    """
    rank = m.x.rank
    require(rank is not None, "the rank of x is unknown")
    axes = [axis % rank for axis in m.axes or ()]
    require(bool(axes), "it has no axes, so its sizes or scales are for all axes")
    require(
        string_attribute(m.attributes, "keep_aspect_ratio_policy", "stretch") == "stretch",
        "it keeps the aspect ratio (keep_aspect_ratio_policy)",
    )
    if m.sizes is None:
        require(
            m.scales is not None and m.scales.values.size == len(axes), "it must have one scale for each of its axes"
        )
        scales = np.ones(rank, np.float32)
        scales[axes] = m.scales.values.reshape(-1)
        return g.resize(m.x, scales=scales, **m.attributes)
    sizes, whole, place = m.sizes, g.shape(m.x), {axis: at for at, axis in enumerate(axes)}
    parts = [
        g.slice(sizes, [place[axis]], [place[axis] + 1]) if axis in place else g.slice(whole, [axis], [axis + 1])
        for axis in range(rank)
    ]
    if axes == list(range(rank - len(axes), rank)):
        parts = [g.slice(whole, [0], [rank - len(axes)]), sizes]
    return g.resize(m.x, sizes=g.concat(*parts, axis=0), **m.attributes)
