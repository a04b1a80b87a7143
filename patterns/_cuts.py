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


def cut_rows_first(g: Graph, m: OneProjection) -> Any:
    """The same, of one projection that has the rows before the batch, as torch.nn.MultiheadAttention makes it.

    The projection [rows, batch, columns] is split into [1, rows, batch, 3, columns] and turned to [3, rows, batch, 1,
    columns].  Each part is split into [rows, batch · heads, columns] and turned to heads; keys perhaps twice.
    """
    rows = g.reshaped(linear(g, m.x, m.whole))
    m.lifted = g.any_of(g.unsqueeze(rows, [0]), rows)
    turned = g.transpose(m.lifted, perm=[3, 1, 2, 0, 4])
    found = []
    for place, part in enumerate(parts_of(m)):
        part.split = g.reshaped(g.gather(g.any_of(g.squeeze(turned, [-2]), g.squeeze(turned, [3])), place, axis=0))
        part.apart = g.reshaped(g.transpose(part.split, perm=[1, 0, 2]))
        part.turned = g.reshaped(g.transpose(part.split, perm=[1, 2, 0]))
        part.joined = g.any_of(g.joined_heads(part.apart), g.reshaped(g.transpose(part.turned, perm=[0, 3, 1, 2])))
        found.append(g.any_of(part.joined, part.apart))
    return attend(g, m, *found)


def by_three(g: Graph, m: ThreeProjections) -> Any:
    """MultiHeadAttention of three projections of one tensor; keys and values may come as heads."""
    k, v = (maybe_apart(g, part, linear(g, m.x, part)) for part in (m.k, m.v))
    return attend(g, m, linear(g, m.x, m.q), k, v)
