"""Queries, keys and values, cut out of one projection."""

from surgeon import Graph, Tensor, require
from ._layouts import HEADS_FIRST, joined, reshaped
from ._projections import NAMES, OneProjection, parts_of


def cut_rows(g: Graph, m: OneProjection, rows: Tensor) -> list[Tensor]:
    """Queries, keys and values, cut out of the last axis of one projection."""
    told = g.split(rows, g.any_tensor(), axis=-1, outputs=3)
    splits = (g.split(rows, axis=-1, num_outputs=3, outputs=3), told, g.split(rows, axis=-1, outputs=3))
    for part, *own in zip(parts_of(m), *splits, strict=True):
        part.begin, end = g.any_tensor(), g.any_tensor()
        slices = [g.slice(rows, part.begin, end, [axis], step) for axis in (-1, 2) for step in (None, [1])]
        part.made = g.any_of(*own, *slices)
    return [part.made for part in parts_of(m)]


def cut_heads(g: Graph, m: OneProjection, rows: Tensor) -> list[Tensor]:
    """The same, as rows or as heads, cut out of an axis of three that one projection is split into.

    The projection is [batch, rows, 3, heads, columns], perhaps turned to [3, batch, heads, rows, columns].
    """
    m.five = reshaped(g, rows)
    turned = _in_three(g, g.transpose(m.five, perm=[2, 0, 3, 1, 4]), 0)
    found = []
    for part, heads, split in zip(parts_of(m), turned, _in_three(g, m.five, 2), strict=True):
        part.apart, part.split = heads, split
        part.joined = g.any_of(joined(g, part.apart), reshaped(g, part.split))
        found.append(g.any_of(part.joined, part.apart, g.transpose(part.split, perm=HEADS_FIRST)))
    return found


def cut_time_first(g: Graph, m: OneProjection, rows: Tensor) -> list[Tensor]:
    """The same, as torch.nn.MultiheadAttention does it, which has the rows before the batch.

    The projection [rows, batch, columns] is split into [1, rows, batch, 3, columns] and turned to [3, rows, batch, 1,
    columns].  Each part is split into [rows, batch · heads, columns] and turned to heads; keys perhaps twice.
    """
    m.lifted = g.any_of(g.unsqueeze(reshaped(g, rows), [0]), reshaped(g, rows))
    turned = g.transpose(m.lifted, perm=[3, 1, 2, 0, 4])
    found = []
    for place, part in enumerate(parts_of(m)):
        part.split = reshaped(g, g.gather(g.any_of(g.squeeze(turned, [-2]), g.squeeze(turned, [3])), place, axis=0))
        part.apart = reshaped(g, g.transpose(part.split, perm=[1, 0, 2]))
        part.turned = reshaped(g, g.transpose(part.split, perm=[1, 2, 0]))
        part.joined = g.any_of(joined(g, part.apart), reshaped(g, g.transpose(part.turned, perm=[0, 3, 1, 2])))
        found.append(g.any_of(part.joined, part.apart))
    return found


def drops_axis(y: Tensor, x: Tensor, axis: int) -> None:
    """A Reshape takes out an axis of size 1."""
    require(x.shape is not None and x.shape[axis] == 1, "what is reshaped has no axis of size 1 there")
    require(y.shape == (*x.shape[:axis], *x.shape[axis + 1 :]), "a Reshape does more than to take out an axis")


def _in_three(g: Graph, x: Tensor, axis: int) -> list[Tensor]:
    """What there is in three places along an axis, which goes."""
    found = []
    for place, kept in enumerate(g.cut(x, 3, axis)):
        dropped = g.such_that(reshaped(g, kept), drops_axis, kept, axis)
        found.append(g.any_of(g.squeeze(kept, [axis]), dropped, g.gather(x, place, axis=axis)))
    return found


def require_cuts(m: OneProjection) -> None:
    """Slices take all columns, one part behind the other."""
    start, width = 0, m.whole.columns
    for part, told in zip(parts_of(m), NAMES, strict=True):
        if part.begin is not None:
            is_fixed = part.begin.is_constant and part.begin.values.size == 1
            require(is_fixed, f"it is not fixed where the {told} begin")
            require(int(part.begin.values.item()) % width == start, f"the {told} are not cut out behind the others")
        start += part.columns
    require(start == width, "queries, keys and values are not the whole projection")
