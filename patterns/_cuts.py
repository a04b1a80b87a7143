"""Queries, keys and values, cut out of one projection."""

from surgeon import Graph, Tensor
from ._projections import OneProjection, parts_of


def cut_rows(g: Graph, m: OneProjection, rows: Tensor) -> list[Tensor]:
    """Queries, keys and values, cut out of the last axis of one projection."""
    m.q.made, m.k.made, m.v.made = g.parts(rows, 3, -1)
    return [part.made for part in parts_of(m)]


def cut_heads(g: Graph, m: OneProjection, rows: Tensor) -> list[Tensor]:
    """The same, as rows or as heads, cut out of an axis of three that one projection is split into.

    The projection is [batch, rows, 3, heads, columns], perhaps turned to [3, batch, heads, rows, columns].
    """
    m.five = g.reshaped(rows)
    turned = g.unstacked(g.transpose(m.five, perm=[2, 0, 3, 1, 4]), 3, 0)
    found = []
    for part, heads, split in zip(parts_of(m), turned, g.unstacked(m.five, 3, 2), strict=True):
        part.apart, part.split = heads, split
        part.joined = g.any_of(g.joined_heads(part.apart), g.reshaped(part.split))
        found.append(g.any_of(part.joined, part.apart, g.heads_first(part.split)))
    return found


def cut_time_first(g: Graph, m: OneProjection, rows: Tensor) -> list[Tensor]:
    """The same, as torch.nn.MultiheadAttention does it, which has the rows before the batch.

    The projection [rows, batch, columns] is split into [1, rows, batch, 3, columns] and turned to [3, rows, batch, 1,
    columns].  Each part is split into [rows, batch · heads, columns] and turned to heads; keys perhaps twice.
    """
    m.lifted = g.any_of(g.unsqueeze(g.reshaped(rows), [0]), g.reshaped(rows))
    turned = g.transpose(m.lifted, perm=[3, 1, 2, 0, 4])
    found = []
    for place, part in enumerate(parts_of(m)):
        part.split = g.reshaped(g.gather(g.any_of(g.squeeze(turned, [-2]), g.squeeze(turned, [3])), place, axis=0))
        part.apart = g.reshaped(g.transpose(part.split, perm=[1, 0, 2]))
        part.turned = g.reshaped(g.transpose(part.split, perm=[1, 2, 0]))
        part.joined = g.any_of(g.joined_heads(part.apart), g.reshaped(g.transpose(part.turned, perm=[0, 3, 1, 2])))
        found.append(g.any_of(part.joined, part.apart))
    return found
