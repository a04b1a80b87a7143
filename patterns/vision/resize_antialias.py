"""Images resized with antialiasing, as products with tables of weights, for targets without antialiasing."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from ._interpolation import INFINITY_DIFFERS, KERNEL_RADIUS, interpolation_matrix, string_attribute


class AntialiasedResize(Captures):
    """Images, their new sizes or their scales, and the attributes of the Resize."""

    x: Tensor
    scales: Constant | Any = None
    sizes: Constant | Any = None
    attributes: dict[str, Any]

    def changes(self) -> list[tuple[int, int, Any]]:
        """Return each axis whose size changes, with its new size and its scale, None if its size is dynamic."""
        constant = self.sizes if self.sizes is not None else self.scales
        require(constant is not None, "neither the sizes nor the scales are constant")
        axes = self.attributes.get("axes") or list(range(self.x.rank))
        require(constant.values.size == len(axes), "it must have a size or scale for every axis")
        found: list[tuple[int, int, Any]] = []
        for axis, value in zip(axes, constant.values.reshape(-1).tolist(), strict=True):
            size = self.x.shape[axis]
            if self.sizes is not None:
                if size != value:
                    found.append((axis % self.x.rank, value, value / size if isinstance(size, int) else None))
            elif value != 1:
                require(isinstance(size, int), "a size is dynamic, and the Resize has scales")
                found.append((axis % self.x.rank, int(np.floor(np.float32(value) * np.float32(size))), value))
        return found


def table_of_free_size(g: Graph, x: Tensor, axis: int, count: int) -> Tensor:
    """Return the table of a linear Resize for a size that is known only at run time."""
    one = np.array(1, np.float32)
    old = g.gather(g.shape(x), np.array(axis))
    scale = g.div(np.array(count, np.float32), g.cast(old, to="float32"))
    places = g.sub(g.div(np.arange(count, dtype=np.float32)[:, None] + np.float32(0.5), scale), np.float32(0.5))
    numbers = g.cast(g.range(np.array(0), old, np.array(1)), to="float32")
    distance = g.mul(g.abs(g.sub(numbers, places)), g.min(scale, one))
    weights = g.relu(g.sub(one, distance))
    made = g.div(weights, g.reduce_sum(weights, np.array([1]), keepdims=1))
    return made if x.dtype == np.float32 else g.cast(made, to=str(x.dtype))


def antialiased(g: Graph, m: AntialiasedResize) -> Tensor:
    """Resize with antialias."""
    return g.resize(m.x, None, m.scales, m.sizes, antialias=1, **m.attributes)


@rule(patterns=[antialiased], target="any", opset=18, lacking=True, dtypes="floats", differs=INFINITY_DIFFERS)
def resize_antialias(g: Graph, m: AntialiasedResize) -> Tensor:
    """Write a Resize with antialiasing as products with tables of weights, if the target does not support antialiasing.

    What: linear and cubic, along the last two axes, with half-pixel coordinates as in Pillow and torch.  For a dynamic
    size, as in models that resize their images themselves, a linear table is computed at run time.  Elements beyond an
    edge must not count then.
    Numerics: rounding only.
    """
    settings = m.attributes
    mode = string_attribute(settings, "mode", "nearest")
    require(mode in KERNEL_RADIUS, f"expected mode linear or cubic, found {mode}")
    place = string_attribute(settings, "coordinate_transformation_mode", "half_pixel")
    require(place == "half_pixel", "expected coordinate_transformation_mode half_pixel")
    policy = string_attribute(settings, "keep_aspect_ratio_policy", "stretch")
    require(policy == "stretch", "it keeps the aspect ratio (keep_aspect_ratio_policy)")
    require(m.x.rank is not None and m.x.dtype is not None, "the rank or the dtype of x is unknown")
    made, last = m.x, m.x.rank - 1
    for axis, count, scale in m.changes():
        require(axis >= last - 1 and last > 0, "only the last two axes may change")
        require(count > 0, "a size of the result is 0")
        excludes = bool(settings.get("exclude_outside"))
        if scale is None:
            require(mode == "linear" and excludes, "a dynamic size needs mode linear and exclude_outside")
            weights = table_of_free_size(g, m.x, axis, count)
        else:
            cubic = None if mode == "linear" else settings.get("cubic_coeff_a", -0.75)
            places, squeezed = (np.arange(count) + 0.5) / scale - 0.5, min(scale, 1.0)
            made_by = interpolation_matrix(m.x.shape[axis], places, squeezed, cubic, excludes=excludes)
            weights = g.literal(made_by.astype(m.x.dtype))
        made = g.matmul(made, g.transpose(weights, perm=[1, 0])) if axis == last else g.matmul(weights, made)
    require(made is not m.x, "the Resize changes no size")
    return made
