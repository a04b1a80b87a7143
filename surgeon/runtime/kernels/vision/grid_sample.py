"""GridSample: sample an image or a volume at the coordinates of a grid, with interpolation.

Source: the operator's text in onnx.defs (opsets 16 and 20), and onnx's reference for points beyond the edges, which
computes coordinates in float32.  If that differs from torch and ONNX Runtime, this follows the latter: in mode cubic,
they do not move a coordinate beyond the border to it.
"""

from functools import reduce
from itertools import product

import numpy as np

from surgeon.runtime.kernels.erf import Array

_CUBIC = -0.75  # the operator's coefficient of the cubic convolution (Keys, 1981)
_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # names in opset 16


def grid_sample(
    x: Array, grid: Array, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Array:
    """Sample x [batch, channels, d1, ..., dn] at the coordinates of grid [batch, o1, ..., on, n], last dim of x first.

    Coordinates -1 and 1 are the edges of x: the outer sides of its first and last points, or with `align_corners` the
    points themselves.
    """
    sizes = x.shape[2:]
    mode, places = _MODES.get(mode, mode), list[Array]()
    edges = [(0.0, size - 1.0) if align_corners else (-0.5, size - 0.5) for size in sizes]
    for axis, (size, (first, last)) in enumerate(zip(sizes, edges, strict=True)):
        relative = grid[..., len(sizes) - 1 - axis].astype(x.dtype)
        place = (relative + 1) / 2 * (size - 1) if align_corners else ((relative + 1) * size - 1) / 2
        place = np.rint(place) if mode == "nearest" else place
        if padding_mode == "border" and mode != "cubic":
            place = np.where((place < first) | (place > last), np.clip(place, 0, size - 1), place)
        elif padding_mode == "reflection":
            place = _reflected(place, first, last)
        places.append(place)
    weighted = {"nearest": _nearest, "linear": _linear, "cubic": _cubic}[mode]
    around = [weighted(place) for place in places]
    made = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    for points in product(*around):
        weight = reduce(np.multiply, [weight for _, weight in points])
        made += weight[:, None] * _at(x, [place for place, _ in points], edges, padding_mode)
    return made


def _reflected(place: Array, first: float, last: float) -> Array:
    """Coordinates, reflected at both edges as often as necessary."""
    length = last - first
    if length <= 0:
        return np.where((place < first) | (place > last), first, place)
    beyond = np.mod(place - first, 2 * length)
    turned = first + np.where(beyond > length, 2 * length - beyond, beyond)
    return np.where((place < first) | (place > last), turned, place)


def _nearest(place: Array) -> list[tuple[Array, Array]]:
    return [(place, np.ones_like(place))]


def _linear(place: Array) -> list[tuple[Array, Array]]:
    below = np.floor(place)
    return [(below, 1 - (place - below)), (below + 1, place - below)]


def _cubic(place: Array) -> list[tuple[Array, Array]]:
    below = np.floor(place)
    beside = place - below
    weights = (_far(beside + 1), _near(beside), _near(1 - beside), _far(2 - beside))
    return [(below + step, weight) for step, weight in zip((-1, 0, 1, 2), weights, strict=True)]


def _near(distance: Array) -> Array:
    return ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance * distance + 1


def _far(distance: Array) -> Array:
    return ((_CUBIC * distance - 5 * _CUBIC) * distance + 8 * _CUBIC) * distance - 4 * _CUBIC


def _at(x: Array, places: list[Array], edges: list[tuple[float, float]], padding_mode: str) -> Array:
    """The points of x at integer coordinates; beyond an edge, 0, the edge, or the reflected point."""
    is_inside = np.ones(places[0].shape, np.bool_)
    whole: list[Array] = []
    for place, size, (first, last) in zip(places, x.shape[2:], edges, strict=True):
        if padding_mode == "reflection":
            place = np.trunc(_reflected(place, first, last))
        elif padding_mode == "zeros":
            is_inside &= (place >= 0) & (place <= size - 1)
        whole.append(np.clip(np.nan_to_num(place), 0, size - 1).astype(np.int64))
    batch = np.arange(len(x)).reshape(-1, *[1] * (places[0].ndim - 1))
    found = np.moveaxis(x[(batch, slice(None), *whole)], -1, 1) if x.size else x
    return np.where(is_inside[:, None], found, np.zeros((), x.dtype))
