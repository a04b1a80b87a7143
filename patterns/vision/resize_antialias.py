"""Pictures resized with antialiasing, as products with tables of weights, for targets that resize without."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from ._interpolation import INFINITY_DIFFERS, KERNEL_RADIUS, interpolation_matrix, string_attribute


class AntialiasedResize(Captures):
    """Pictures, the sizes that they are to have or by how much they grow, and how."""

    x: Tensor
    scales: Constant | Any = None
    sizes: Constant | Any = None
    attributes: dict[str, Any]

    def changes(self) -> list[tuple[int, int, Any]]:
        """For each axis that changes its number, its new size, and by how much it grows; None where that is given by
        a size that is free."""
        constant = self.sizes if self.sizes is not None else self.scales
        require(constant is not None, "neither sizes nor scales are constants")
        axes = self.attributes.get("axes") or list(range(self.x.rank))
        require(constant.values.size == len(axes), "it does not name every axis")
        found: list[tuple[int, int, Any]] = []
        for axis, value in zip(axes, constant.values.reshape(-1).tolist(), strict=True):
            size = self.x.shape[axis]
            if self.sizes is not None:
                if size != value:
                    found.append((axis % self.x.rank, value, value / size if isinstance(size, int) else None))
            elif value != 1:
                require(isinstance(size, int), "a size is free, and scales are told")
                found.append((axis % self.x.rank, int(np.floor(np.float32(value) * np.float32(size))), value))
        return found


def table_of_free_size(g: Graph, x: Tensor, axis: int, count: int) -> Tensor:
    """The same of triangles, for a size that the model learns as it runs."""
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
    """Write a Resize with antialiasing as products with tables of weights, where the target has none.

    What: linear and cubic, along the last two axes, half a pixel off as Pillow and torch have it.  Of a free size, as
    pictures that are resized inside of the model have, a linear table is computed as the model runs, where elements
    beyond an edge do not count.
    Numerics: rounding only.
    """
    settings = m.attributes
    mode = string_attribute(settings, "mode", "nearest")
    require(mode in KERNEL_RADIUS, f"it is for the modes linear and cubic alone, and here is {mode}")
    place = string_attribute(settings, "coordinate_transformation_mode", "half_pixel")
    require(place == "half_pixel", "its places are not those of half a pixel")
    policy = string_attribute(settings, "keep_aspect_ratio_policy", "stretch")
    require(policy == "stretch", "it keeps the ratio of the sides")
    require(m.x.rank is not None and m.x.dtype is not None, "the rank or the dtype of x is unknown")
    made, last = m.x, m.x.rank - 1
    for axis, count, scale in m.changes():
        require(axis >= last - 1 and last > 0, "another axis than the last two changes")
        require(count > 0, "nothing is left")
        excludes = bool(settings.get("exclude_outside"))
        if scale is None:
            require(mode == "linear" and excludes, "a size is free, and the weights are cubic or of what is outside")
            weights = table_of_free_size(g, m.x, axis, count)
        else:
            cubic = None if mode == "linear" else settings.get("cubic_coeff_a", -0.75)
            places, squeezed = (np.arange(count) + 0.5) / scale - 0.5, min(scale, 1.0)
            made_by = interpolation_matrix(m.x.shape[axis], places, squeezed, cubic, excludes=excludes)
            weights = g.literal(made_by.astype(m.x.dtype))
        made = g.matmul(made, g.transpose(weights, perm=[1, 0])) if axis == last else g.matmul(weights, made)
    require(made is not m.x, "no size changes")
    return made
