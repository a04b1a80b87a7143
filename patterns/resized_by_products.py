"""Pictures resized with antialiasing, as products with tables of weights, for targets that resize without."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule

REACH = {"linear": 1, "cubic": 2}
INFINITE = {"non_finite": "of one infinite element a product makes NaN where its weight is 0"}


class Resized(Captures):
    """Pictures, the sizes that they are to have or by how much they grow, and how."""

    x: Tensor
    scales: Constant | Any = None
    sizes: Constant | Any = None
    attributes: dict[str, Any]

    def changes(self) -> list[tuple[int, int, Any]]:
        """For each axis that changes its number, its new size, and by how much it grows; None where that is told by
        a size that is free."""
        told = self.sizes if self.sizes is not None else self.scales
        require(told is not None, "neither sizes nor scales are constants")
        axes = self.attributes.get("axes") or list(range(self.x.rank))
        require(told.values.size == len(axes), "it does not name every axis")
        found: list[tuple[int, int, Any]] = []
        for axis, value in zip(axes, told.values.reshape(-1).tolist(), strict=True):
            size = self.x.shape[axis]
            if self.sizes is not None:
                if size != value:
                    found.append((axis % self.x.rank, value, value / size if isinstance(size, int) else None))
            elif value != 1:
                require(isinstance(size, int), "a size is free, and scales are told")
                found.append((axis % self.x.rank, int(np.floor(np.float32(value) * np.float32(size))), value))
        return found


def cubic_weights(distance: np.ndarray[Any, Any], a: float) -> np.ndarray[Any, Any]:
    """Keys' cubic convolution (IEEE ASSP 29, 1981, eq. 15)."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def table(size: int, count: int, scale: float, cubic: float | None, *, excludes: bool) -> np.ndarray[Any, Any]:
    """What each element of an axis adds to each new one: [new, old], rows that sum to 1.

    excludes: elements beyond an edge do not count; else the edge stands for them.
    """
    squeezed = min(scale, 1.0)
    places = (np.arange(count) + 0.5) / scale - 0.5
    wide = 0 if excludes else int(np.ceil(2 / squeezed)) + 1
    elements = np.arange(-wide, size + wide)
    distance = abs(elements - places[:, None]) * squeezed
    weights = np.maximum(0, 1 - distance) if cubic is None else cubic_weights(distance, cubic)
    inside: np.ndarray[Any, Any] = np.zeros((count, size))
    for column, element in enumerate(np.clip(elements, 0, size - 1).tolist()):
        inside[:, element] += weights[:, column]
    inside /= inside.sum(axis=1, keepdims=True)
    return inside


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


def antialiased(g: Graph, m: Resized) -> Tensor:
    """Resize with antialias."""
    return g.resize(m.x, None, m.scales, m.sizes, antialias=1, **m.attributes)


@rule(patterns=[antialiased], target="any", opset=18, lacking=True, dtypes="floats", differs=INFINITE)
def resized_by_products(g: Graph, m: Resized) -> Tensor:
    """Write a Resize with antialiasing as products with tables of weights, where the target has none.

    What: linear and cubic, along the last two axes, half a pixel off as Pillow and torch have it.  Of a free size, as
    pictures that are resized inside of the model have, a linear table is computed as the model runs, where elements
    beyond an edge do not count.
    Numerics: rounding only.
    """
    settings = m.attributes
    mode: Any = settings.get("mode", "nearest")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    require(mode in REACH, f"it is for the modes linear and cubic alone, and here is {mode}")
    place: Any = settings.get("coordinate_transformation_mode", "half_pixel")
    require(place in ("half_pixel", b"half_pixel"), "its places are not those of half a pixel")
    policy: Any = settings.get("keep_aspect_ratio_policy", "stretch")
    require(policy in ("stretch", b"stretch"), "it keeps the ratio of the sides")
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
            weights = g.literal(table(m.x.shape[axis], count, scale, cubic, excludes=excludes).astype(m.x.dtype))
        made = g.matmul(made, g.transpose(weights, perm=[1, 0])) if axis == last else g.matmul(weights, made)
    require(made is not m.x, "no size changes")
    return made
