"""Elements picked by a condition that is fixed."""

from math import prod

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule


def along_axis(g: Graph, x: Tensor, condition: Constant, axis: int) -> Tensor:
    """Compress along an axis."""
    return g.compress(x, condition, axis=axis)


def flattened(g: Graph, x: Tensor, condition: Constant) -> Tensor:
    """Compress of all elements in a row."""
    return g.compress(x, condition)


@rule(patterns=[along_axis, flattened], target="any", lacking=True)
def compress(g: Graph, x: Tensor, condition: Constant, axis: int | None = None) -> Tensor:
    """Write a Compress by a constant as a Gather.

    What: the slices along an axis, or the elements in a row, for which the condition holds, where the target has no
    Compress.
    Numerics: none.
    """
    places = np.flatnonzero(condition.values)
    require(places.size > 0, "the condition holds nowhere")
    sizes = [None] if x.shape is None else x.shape if axis is None else [x.shape[axis]]
    require(all(isinstance(size, int) for size in sizes), "how many there are to pick from is not fixed")
    require(places[-1] < prod(sizes), "the condition is longer than what it picks from")
    x = x if axis is not None else g.reshape(x, np.array([-1]))
    return g.gather(x, places.astype(np.int64), axis=axis or 0)
