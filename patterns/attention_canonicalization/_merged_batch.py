"""A batch of several axes before rows and columns as one axis, and as several again."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require


class Merged(Captures):
    """Factors a, b and v with several axes before their rows, these as one (first, second, third), and what is made.

    left, right, scale: of either factor, and of their product; within: of the second before it is turned.
    wide, narrow: dtypes around the softmax; to, into, out: those that the factors of scores, values and what is made
    are cast to in one batch.
    """

    a: Tensor = dims("*batch rows inner")
    b: Tensor | None = dims("*batch lines columns", default=None)
    v: Tensor | None = dims("*batch keys width", default=None)
    first: Tensor = dims("_ rows inner")
    second: Tensor | Any = dims("_ lines columns", default=None)
    third: Tensor | Any = dims("_ keys width", default=None)
    turned: Tensor | None = None
    soft: Tensor | None = None
    bias: Tensor | None = None
    left: float | None = None
    right: float | None = None
    within: float | None = None
    scale: float | None = None
    to: int | Any = None
    into: int | Any = None
    out: int | Any = None
    wide: int | Any = None
    narrow: int | Any = None
    y: Tensor | None = dims("*batch _ _", default=None)


def parted(g: Graph, x: Tensor, ahead: Sequence[Any]) -> Tensor:
    """What is added to scores, with these axes in the place of its first; computed from its own shape alone."""
    require(x.shape is not None and x.rank <= 3, "what is added has more axes, or nobody knows which")
    if x.rank < 3 or x.shape[0] == 1:
        return x
    free = [axis for axis, size in enumerate(ahead) if not isinstance(size, int)]
    known = prod(size for size in ahead if isinstance(size, int))
    require(len(free) < 2 and known > 0, "the sizes of several axes that become one are free")
    first = g.div(g.size_of(x, 0), np.array([known], np.int64)) if free else None
    sizes = [first if axis in free else np.array([size], np.int64) for axis, size in enumerate(ahead)]
    own = [np.array([x.shape[axis]]) if isinstance(x.shape[axis], int) else g.size_of(x, axis) for axis in (1, 2)]
    return g.reshape(x, g.concat(*sizes, *own, axis=0))


def with_one_batch(g: Graph, x: Tensor) -> Tensor:
    """x with one axis for all before the last two."""
    shape = g.shape(x)
    ahead, own = g.slice(shape, [0], [-2], [0]), g.slice(shape, [-2], [np.iinfo(np.int64).max], [0])
    return g.reshape(x, g.concat(g.reduce_prod(ahead, axes=[0], keepdims=1), own, axis=0))
