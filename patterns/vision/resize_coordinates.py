"""Images resized with sizes or coordinates that a target does not support."""

from math import floor
from typing import Any, NamedTuple

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from ._interpolation import (
    INFINITY_DIFFERS,
    KERNEL_RADIUS,
    Numbers,
    interpolation_matrix,
    nearest_indices,
    string_attribute,
)

KNOWN = ("half_pixel", "asymmetric", "align_corners")
PLACES = (*KNOWN, "half_pixel_symmetric", "tf_crop_and_resize")
PLACE, POLICY = "coordinate_transformation_mode", "keep_aspect_ratio_policy"


class CroppedResize(Captures):
    """Images, the cropped region, the new sizes or the scales, and the attributes of the Resize."""

    x: Tensor
    region: Constant | Any = None
    scales: Constant | Any = None
    sizes: Constant | Any = None
    attributes: dict[str, Any]

    def axes(self) -> list[int]:
        """The axes of the Resize."""
        return [axis % self.x.rank for axis in self.attributes.get("axes") or range(self.x.rank)]


class AxisResize(NamedTuple):
    """The change of one axis by Resize."""

    axis: int
    """The axis."""
    size: int
    """Its size before."""
    number: int
    """Its size after."""
    scale: float
    """Factor between the two sizes, from the attributes of the node."""
    start: float
    """Start of the part to resize, as a fraction of the axis."""
    end: float
    """End of that part, as a fraction of the axis."""

    def places(self, kind: str) -> Numbers:
        """The position of each new element between the old ones, in float32 as kernels compute it."""
        new, half = np.arange(self.number, dtype=np.float32), np.float32(0.5)
        scale, last = np.float32(self.scale), np.float32(self.size - 1)
        if kind == "asymmetric":
            return new / scale
        steps = np.float32(max(self.number - 1, 1))
        if kind == "align_corners":
            return new * last / steps
        if kind == "tf_crop_and_resize":
            start, end = np.float32(self.start), np.float32(self.end)
            middle = half * (start + end) * last
            return np.array([middle]) if self.number == 1 else start * last + new * (end - start) * last / steps
        offset, size = np.float32(0), np.float32(self.size)
        if kind == "half_pixel_symmetric":
            offset = half * size * (1 - np.float32(self.number) / (scale * size))
        return offset + (new + half) / scale - half


def changes(m: CroppedResize, policy: str) -> list[AxisResize]:
    """Return the change of each axis of the Resize."""
    constant, axes = m.scales if m.sizes is None else m.sizes, m.axes()
    require(
        constant is not None and constant.values.size == len(axes),
        "neither sizes nor scales are constant for each axis",
    )
    sizes = [m.x.shape[axis] for axis in axes]
    require(all(isinstance(size, int) and size > 0 for size in sizes), "a size is dynamic")
    values = constant.values.reshape(-1).tolist()
    if m.sizes is None:
        counts, scales = [floor(np.float32(v) * np.float32(n)) for v, n in zip(values, sizes, strict=True)], values
    else:
        counts, scales = values, [value / size for value, size in zip(values, sizes, strict=True)]
        if policy != "stretch":
            scales = [min(scales) if policy == "not_larger" else max(scales)] * len(scales)
            counts = [floor(scale * size + 0.5) for scale, size in zip(scales, sizes, strict=True)]
    ends = [0.0] * len(axes) + [1.0] * len(axes)
    if m.region is not None and m.region.values.size:
        ends = m.region.values.reshape(-1).tolist()
    starts, ends = ends[: len(axes)], ends[len(axes) :]
    return [AxisResize(*row) for row in zip(axes, sizes, counts, scales, starts, ends, strict=True)]


def resized(g: Graph, m: CroppedResize) -> Tensor:
    """Resize."""
    return g.resize(m.x, m.region, m.scales, m.sizes, **m.attributes)


@rule(patterns=[resized], target="any", opset=11, lacking=True, dtypes="floats", differs=INFINITY_DIFFERS)
def resize_coordinates(g: Graph, m: CroppedResize) -> Tensor:
    """Write a Resize with unsupported coordinates or sizes as another Resize, as Gather, or as matrix products.

    What: half_pixel_symmetric, tf_crop_and_resize and keep_aspect_ratio_policy.  If sizes are given, half_pixel
    replaces half_pixel_symmetric.  Otherwise the sizes must be fixed: Gather selects nearest elements, and linear and
    cubic interpolation are products with tables of weights along the last two axes.  Elements outside the image get the
    extrapolation value.
    Numerics: rounding only.
    """
    require(m.x.rank is not None and not m.attributes.get("antialias"), "the rank of x is unknown, or it antialiases")
    kind, policy = string_attribute(m.attributes, PLACE, PLACES[0]), string_attribute(m.attributes, POLICY, "stretch")
    require(
        kind in PLACES and (kind not in KNOWN or policy != "stretch"),
        "the target supports these coordinates and sizes, or they are unknown",
    )
    if kind == "half_pixel_symmetric" and m.sizes is not None and policy == "stretch":
        return g.resize(m.x, sizes=m.sizes, **{**m.attributes, PLACE: "half_pixel"})
    mode, outside = string_attribute(m.attributes, "mode", "nearest"), np.zeros((1,) * m.x.rank, bool)
    made, last = m.x, m.x.rank - 1
    for one in changes(m, policy):
        places = one.places(kind)
        beyond = (places < 0) | (places > one.size - 1)
        if kind == "tf_crop_and_resize" and beyond.any():
            outside = outside | beyond.reshape([-1 if axis == one.axis else 1 for axis in range(m.x.rank)])
        if np.array_equal(places, np.arange(one.size)):
            continue
        if mode == "nearest":
            how = string_attribute(m.attributes, "nearest_mode", "round_prefer_floor")
            made = g.gather(made, nearest_indices(places, one.size, how), axis=one.axis)
            continue
        require(mode in KERNEL_RADIUS and one.axis >= last - 1 > -1, "only the last two axes may change")
        cubic = None if mode == "linear" else m.attributes.get("cubic_coeff_a", -0.75)
        excludes = bool(m.attributes.get("exclude_outside"))
        weights = interpolation_matrix(one.size, places, 1.0, cubic, excludes=excludes).astype(m.x.dtype)
        made = g.matmul(made, weights.T) if one.axis == last else g.matmul(weights, made)
    if outside.any():
        made = g.where(outside, np.array(m.attributes.get("extrapolation_value", 0.0), m.x.dtype), made)
    require(made is not m.x, "the Resize changes no element")
    return made
