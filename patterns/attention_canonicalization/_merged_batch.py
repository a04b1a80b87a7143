"""A batch of several axes before rows and columns, merged into one axis and split again."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require
from .._common.axes import is_same_size


class MergedBatch(Captures):
    """Factors a, b and v with several axes before their rows, the same with one axis, and the result.

    first, second, third: a, b and v with one axis before their rows.

    left, right, scale: factors of a, of b and of their product. within: a factor of b before its Transpose.

    wide, narrow: dtypes around the softmax. to, into, out: the dtypes to which the factors of the scores, the values
    and the result are cast in one batch.
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


def with_split_batch(g: Graph, x: Tensor, ahead: Sequence[Any], of: Tensor | None = None) -> Tensor:
    """Return the bias of the scores with the axes `ahead` in place of its first axis.

    of: the tensor with these first axes.  A first size that may be 1 at run time is broadcast to its batch.
    """
    require(x.shape is not None and x.rank <= 3, "the rank of the bias is unknown or above 3")
    if x.rank < 3 or x.shape[0] == 1:
        return x
    free = [axis for axis, size in enumerate(ahead) if not isinstance(size, int)]
    known = prod(size for size in ahead if isinstance(size, int))
    require(len(free) < 2 and known > 0, "at least two of the merged axes have dynamic sizes")
    number, own = np.array([known], np.int64), [size_of(g, x, axis) for axis in (1, 2)]
    if of is not None and not is_same_size(x.shape[0], prod(ahead)):
        count = g.mul(*(g.size_of(of, axis) for axis in free), number) if free else known
        x = g.spread(x, [count, 1, 1])
    first = g.div(g.size_of(x, 0), number) if free else None
    sizes = [first if axis in free else np.array([size], np.int64) for axis, size in enumerate(ahead)]
    return g.reshape(x, g.concat(*sizes, *own, axis=0))


def size_of(g: Graph, x: Tensor, axis: int) -> Any:
    """Return the size of an axis, as a constant if it is known."""
    size = x.shape[axis]
    return np.array([size], np.int64) if isinstance(size, int) else g.size_of(x, axis)


def with_merged_batch(g: Graph, x: Tensor) -> Tensor:
    """Merge all axes of x before the last two."""
    shape = g.shape(x)
    ahead, own = g.slice(shape, [0], [-2], [0]), g.slice(shape, [-2], [np.iinfo(np.int64).max], [0])
    return g.reshape(x, g.concat(g.reduce_prod(ahead, axes=[0], keepdims=1), own, axis=0))
