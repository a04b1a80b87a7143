"""The maxima of parts of regions, by comparing each row and column with the bounds of the parts."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule

INFINITE = {"non_finite": "each runtime decides whether a maximum propagates NaN"}


class MaxRoiPool(Captures):
    """Images, their regions, the number of parts of each region, and the scale from regions to images."""

    x: Tensor
    rois: Tensor
    parts: list[int]
    scale: float


def node(g: Graph, m: MaxRoiPool) -> Tensor:
    """MaxRoiPool."""
    return g.max_roi_pool(m.x, m.rois, pooled_shape=m.parts, spatial_scale=m.scale)


def rounded(g: Graph, x: Tensor) -> Tensor:
    """x rounded to an integer, halves away from zero."""
    half = np.array(0.5, x.dtype)
    return g.mul(g.sign(x), g.floor(g.add(g.abs(x), half)))


def inside(g: Graph, m: MaxRoiPool, axis: int, first: int, last: int, parts: int) -> tuple[Tensor, Tensor]:
    """Return which elements of an axis are in each part of each region [region, part, element], and the empty parts."""
    kind = m.rois.dtype
    size = g.gather(g.shape(m.x), np.array(axis))
    most = g.cast(size, to=str(kind))
    ends = (g.mul(g.gather(m.rois, np.array([at]), axis=1), np.array(m.scale, kind)) for at in (first, last))
    start, end = (rounded(g, one) for one in ends)
    one = np.array(1, kind)
    step = g.div(g.max(g.add(g.sub(end, start), one), one), np.array(parts, kind))
    numbers = np.arange(parts, dtype=kind)
    none = np.array(0, kind)
    left = g.min(g.max(g.add(g.floor(g.mul(step, numbers)), start), none), most)
    right = g.min(g.max(g.add(g.ceil(g.mul(step, numbers + kind.type(1))), start), none), most)
    places = g.cast(g.range(np.array(0), size, np.array(1)), to=str(kind))
    apart: Any = np.array([2])
    is_inside = g.and_(
        g.greater_or_equal(places, g.unsqueeze(left, apart)), g.less(places, g.unsqueeze(right, apart))
    )
    return is_inside, g.less_or_equal(right, left)


@rule(patterns=[node], target="any", opset=13, lacking=True, dtypes="floats", differs=INFINITE)
def max_roi_pool(g: Graph, m: MaxRoiPool) -> Tensor:
    """Write a MaxRoiPool as maxima over the rows and columns of each part of a region.

    What: the corners of regions are rounded to elements, as in ONNX Runtime.  Empty parts are zero.  Each part reads
    every row and column.
    Numerics: none.
    """
    require(m.x.rank == 4 and m.rois.rank == 2, "the rank of the images or the regions is unknown")
    require(m.x.dtype is not None and m.rois.dtype == m.x.dtype, "the dtypes are unknown or differ")
    least = np.array(-np.inf, m.x.dtype)
    rows, no_rows = inside(g, m, 2, first=2, last=4, parts=m.parts[0])
    columns, no_columns = inside(g, m, 3, first=1, last=3, parts=m.parts[1])
    batch = g.cast(g.gather(m.rois, np.array(0), axis=1), to="int64")
    picked = g.unsqueeze(g.gather(m.x, batch, axis=0), np.array([2]))
    tall = g.where(g.unsqueeze(rows, np.array([1, 4])), picked, least)
    made = g.unsqueeze(g.reduce_max(tall, [3], keepdims=0), np.array([3]))
    wide = g.where(g.unsqueeze(columns, np.array([1, 2])), made, least)
    found = g.reduce_max(wide, [4], keepdims=0)
    is_empty = g.or_(g.unsqueeze(no_rows, np.array([1, 3])), g.unsqueeze(no_columns, np.array([1, 2])))
    return g.where(is_empty, np.array(0, m.x.dtype), found)
