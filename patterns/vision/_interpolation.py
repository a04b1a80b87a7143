"""The weight of each element of an axis in each new element when images are resized."""

from collections.abc import Mapping
from typing import Any

import numpy as np

KERNEL_RADIUS = {"linear": 1, "cubic": 2}
INFINITY_DIFFERS = {"non_finite": "in a product, an infinite element gives NaN even if its weight is 0"}
Numbers = np.ndarray[Any, Any]


def string_attribute(settings: Mapping[str, Any], name: str, default: str) -> str:
    """Return a string attribute."""
    found = settings.get(name, default)
    return found.decode() if isinstance(found, bytes) else str(found)


def cubic_weights(distance: Numbers, a: float) -> Numbers:
    """Keys' cubic convolution (IEEE ASSP 29, 1981, eq. 15)."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def interpolation_matrix(
    size: int, places: Numbers, squeezed: float, cubic: float | None, *, excludes: bool
) -> Numbers:
    """Return the weight of each element of an axis in each new element: [new, old], with rows that sum to 1.

    places: the positions of the new elements between the old ones. squeezed: below 1, the weights reach farther by this
    factor. cubic: the factor of cubic weights, or None for triangles. excludes: elements beyond an edge do not count.
    Otherwise they equal the element at the edge.
    """
    reach = int(np.ceil(2 / squeezed)) + 1
    wide = 0 if excludes else reach + int(max(0, np.ceil(-places.min()), np.ceil(places.max() - size + 1)))
    elements = np.arange(-wide, size + wide)
    distance = abs(elements - places[:, None]) * squeezed
    weights = np.maximum(0, 1 - distance) if cubic is None else cubic_weights(distance, cubic)
    inside: Numbers = np.zeros((len(places), size))
    for column, element in enumerate(np.clip(elements, 0, size - 1).tolist()):
        inside[:, element] += weights[:, column]
    total = inside.sum(axis=1, keepdims=True)
    found: Numbers = np.divide(inside, total, out=np.zeros_like(inside), where=total != 0)
    return found


def nearest_indices(places: Numbers, size: int, how: str) -> Numbers:
    """Return the index of the nearest old element for each new one."""
    below, above = np.floor(places), np.ceil(places)
    rounded = {
        "floor": below,
        "ceil": above,
        "round_prefer_floor": np.where(places == below + np.float32(0.5), below, np.floor(places + np.float32(0.5))),
        "round_prefer_ceil": np.floor(places + np.float32(0.5)),
    }
    return np.clip(rounded[how], 0, size - 1).astype(np.int64)
