"""Elements selected by a constant condition."""

from math import prod

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule


def along_axis(g: Graph, x: Tensor, condition: Constant, axis: int) -> Tensor:
    """Compress along an axis."""
    return g.compress(x, condition, axis=axis)


def flattened(g: Graph, x: Tensor, condition: Constant) -> Tensor:
    """Compress of the flattened elements."""
    return g.compress(x, condition)


@rule(patterns=[along_axis, flattened], target="any", lacking=True)
def compress(g: Graph, x: Tensor, condition: Constant, axis: int | None = None) -> Tensor:
    """Write a Compress with a constant condition as a Gather.

    What: the slices along an axis, or the flattened elements, for which the condition is true.  For targets that do not
    support Compress.
    Numerics: none.
    """
    places = np.flatnonzero(condition.values)
    require(places.size > 0, "the condition is false everywhere")
    sizes = [None] if x.shape is None else x.shape if axis is None else [x.shape[axis]]
    require(all(isinstance(size, int) for size in sizes), "the number of elements is not fixed")
    require(places[-1] < prod(sizes), "the condition is longer than the axis")
    x = x if axis is not None else g.reshape(x, np.array([-1]))
    return g.gather(x, places.astype(np.int64), axis=axis or 0)
