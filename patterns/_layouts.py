"""Reshapes, sizes, and heads joined in one axis, as patterns of several rules look for them and as rules write them."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor

ABSENT: Any = None  # what a capture is where the pattern that fits does not bind it
HEADS_FIRST = [0, 2, 1, 3]  # [batch, rows, heads, columns] to [batch, heads, rows, columns], and back


def reshaped(g: Graph, x: Tensor | None) -> Tensor:
    """x in another shape, whatever a size of 0 in the target means: what counts is the shape of the result."""
    shape = g.any_tensor()
    return g.any_of(g.reshape(x, shape), g.reshape(x, shape, allowzero=1))


def joined(g: Graph, x: Tensor) -> Tensor:
    """The heads of [batch, heads, rows, columns] beside each other in the last axis."""
    return reshaped(g, g.transpose(x, perm=HEADS_FIRST))


def size_of(g: Graph, x: Tensor, axis: int) -> Tensor:
    """One size of a tensor, on an axis of its own."""
    return g.slice(g.shape(x), [axis], [axis + 1], [0])


def rows_of_heads(g: Graph, x: Tensor, width: int | None = None) -> Tensor:
    """[batch, rows, width] of [batch, heads, rows, columns].  width: where x does not know its shape."""
    return g.reshape(g.transpose(x, perm=HEADS_FIRST), [0, 0, x.shape[1] * x.shape[3] if width is None else width])


def heads_of_rows(g: Graph, x: Tensor, heads: int, columns: int) -> Tensor:
    """[batch, heads, rows, columns] of heads that are joined."""
    return g.transpose(g.reshape(x, [0, 0, heads, columns]), perm=HEADS_FIRST)


def spread_heads(g: Graph, x: Tensor, heads: int, copies: int, columns: Any) -> Tensor:
    """[batch, heads · copies, rows, columns], each head several times, as exporters write it, so that rules know it."""
    each = g.expand(g.unsqueeze(x, [2]), np.array([1, 1, copies, 1, 1], np.int64))
    return g.reshape(each, [0, heads * copies, -1, columns])


def spread_to(g: Graph, bias: Tensor, rows: Tensor, keys: Tensor) -> Tensor:
    """A bias with four axes, repeated for so many rows and keys where it has one for all of them."""
    one = np.array([1], np.int64)
    return g.expand(bias, g.concat(one, one, rows, keys, axis=0))


def in_dtype(g: Graph, x: Tensor, wanted: Any, own: Any = None) -> Tensor:
    """A tensor in a dtype.  own: the dtype that it has, where it does not know it itself."""
    return x if (x.dtype if own is None else own) == wanted else g.cast(x, to=wanted)
