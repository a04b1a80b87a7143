"""Queries, keys and values of an attention as batches of matrices, for ops that are given one head at a time."""

from typing import Any

from surgeon import Graph, Tensor
from ._hidden import queries
from ._layouts import in_dtype
from ._scores import Scores


def apart(g: Graph, m: Scores, kt: Tensor, v: Tensor, dtype: Any) -> list[Tensor]:
    """Queries, keys and values in a dtype; where heads of windows have an axis of their own, these as one batch."""
    *ahead, last, end = range(m.q.rank)
    turned = g.transpose(kt, perm=[*ahead, end, last])
    parts = ((queries(g, m, dtype), m.q), (turned, kt), (v, v))
    found = [in_dtype(g, made, dtype, x.dtype) for made, x in parts]
    if m.q.rank < 5:
        return found
    sides = (m.q.shape[3:], kt.shape[:2:-1], v.shape[3:])
    return [g.reshape(x, [-1, *own]) for x, own in zip(found, sides, strict=True)]


def in_windows(g: Graph, m: Scores, made: Tensor, v: Tensor) -> Tensor:
    """What was made of one batch, with the axes of the queries."""
    return made if m.q.rank < 5 else g.reshape(made, [-1, *m.q.shape[1:4], v.shape[4]])
