"""The index of the maximum of each window, for targets whose pooling does not return it."""

from itertools import product
from math import prod
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule
from ._pool_windows import NOT_A_NUMBER, PoolWindows, window_slices


def places(m: PoolWindows) -> list[np.ndarray[Any, Any]]:
    """Return the index in a plane of each element of the windows, for each window: [1, 1, rows, columns, ...]."""
    strides, dilations, pads = m.sides()
    sizes: list[Any] = list(m.x.shape[2:])
    axes = len(sizes)
    plane = np.arange(prod(sizes), dtype=np.int64).reshape(sizes)
    plane = np.pad(plane, list(zip(pads[:axes], pads[axes:], strict=True)))
    found = []
    for tap in product(*map(range, m.kernel)):
        cuts = []
        for axis, place in enumerate(tap):
            first = place * dilations[axis]
            end = plane.shape[axis] - (m.kernel[axis] - 1 - place) * dilations[axis]
            cuts.append(slice(first, end, strides[axis]))
        found.append(plane[tuple(cuts)][None, None])
    return found


def planes(g: Graph, x: Tensor) -> Any:
    """Return the index of the first element of each plane: [batch, channel, 1, ...]."""
    size, channels = prod(x.shape[2:]), x.shape[1]
    ones = [1] * (x.rank - 2)
    each = np.arange(channels, dtype=np.int64).reshape(1, -1, *ones) * size
    if x.shape[0] == 1:
        return each
    zero, one = np.array(0, np.int64), np.array(1, np.int64)
    batch = g.range(zero, g.gather(g.shape(x), zero), one)
    return g.add(g.mul(g.reshape(batch, np.array([-1, 1, *ones])), np.array(size * channels)), each)


def largest(g: Graph, m: PoolWindows) -> Any:
    """MaxPool with the indices of the maxima."""
    return g.max_pool(m.x, kernel_shape=m.kernel, outputs=2, **m.attributes)


@rule(patterns=[largest], target="any", opset=11, lacking=True, dtypes="floats", differs=NOT_A_NUMBER)
def max_pool_indices(g: Graph, m: PoolWindows) -> tuple[Tensor, Tensor]:
    """Write a MaxPool with indices as a MaxPool without them, and compare its output with the elements of the windows.

    What: a slice and a table of indices for each element of a window, if MaxPool of the target has only one output.
    The first of equal numbers is selected.  MaxUnpool reads these indices.
    Numerics: none.
    """
    is_fixed = m.x.rank is not None and all(isinstance(size, int) for size in m.x.shape[1:])
    require(is_fixed, "the number of channels or the size of the images is not fixed")
    require(m.x.dtype is not None, "the dtype of x is unknown")
    seen = window_slices(g, m.x, m, np.array(-np.inf, m.x.dtype))
    has_gaps = any(step != 1 for step in m.attributes.get("dilations") or ())
    y = g.max(*seen) if has_gaps else g.max_pool(m.x, kernel_shape=m.kernel, outputs=1, **m.attributes)[0]
    *first, last = places(m)
    found: Any = last
    for tap, place in zip(reversed(seen[:-1]), reversed(first), strict=True):
        found = g.where(g.equal(tap, y), place, found)
    return y, g.add(found, planes(g, m.x))
