"""Attention of queries, keys and values that are parts of one projection, or are one each, as patterns look for it."""

from typing import Any

from surgeon import Graph
from ._projections import OneProjection, ThreeProjections, attend, linear, maybe_apart, parts_of


def cut_in_three(g: Graph, m: OneProjection) -> Any:
    """MultiHeadAttention of parts of one projection; keys and values may come as heads."""
    m.q.made, m.k.made, m.v.made = g.parts(linear(g, m.x, m.whole), 3, -1)
    return attend(g, m, m.q.made, *(maybe_apart(g, part, part.made) for part in (m.k, m.v)))


def cut_along_an_axis(g: Graph, m: OneProjection) -> Any:
    """The same, of one projection whose columns are split in three and into heads.

    The projection is [batch, rows, 3, heads, columns], perhaps turned to [3, batch, heads, rows, columns].
    """
    m.five = g.reshaped(linear(g, m.x, m.whole))
    turned = g.unstacked(g.transpose(m.five, perm=[2, 0, 3, 1, 4]), 3, 0)
    found = []
    for part, heads, split in zip(parts_of(m), turned, g.unstacked(m.five, 3, 2), strict=True):
        part.apart, part.split = heads, split
        part.joined = g.any_of(g.joined_heads(part.apart), g.reshaped(part.split))
        found.append(g.any_of(part.joined, part.apart, g.heads_first(part.split)))
    return attend(g, m, *found)


def by_three(g: Graph, m: ThreeProjections) -> Any:
    """MultiHeadAttention of three projections of one tensor; keys and values may come as heads."""
    k, v = (maybe_apart(g, part, linear(g, m.x, part)) for part in (m.k, m.v))
    return attend(g, m, linear(g, m.x, m.q), k, v)
