"""Queries, keys and values, cut out of one projection."""

from typing import Any

from surgeon import Graph, Match, Tensor, require
from ._layouts import HEADS_FIRST, joined, reshaped
from ._projections import NAMES, PARTS


def cut_rows(g: Graph, rows: Tensor) -> tuple[Tensor, ...]:
    """Queries, keys and values, cut out of the last axis of one projection."""
    splits = (
        g.split(rows, axis=-1, num_outputs=3, outputs=3),
        g.split(rows, g.any_tensor(), axis=-1, outputs=3),
        g.split(rows, axis=-1, outputs=3),
    )
    found = []
    for place, name in enumerate(PARTS):
        start, end = g.capture(f"{name}_from", g.any_tensor()), g.any_tensor()
        slices = [g.slice(rows, start, end, [axis], step) for axis in (-1, 2) for step in (None, [1])]
        found.append(g.capture(name, g.any_of(*(split[place] for split in splits), *slices)))
    return tuple(found)


def cut_heads(g: Graph, rows: Tensor) -> tuple[Tensor, ...]:
    """The same, as rows or as heads, cut out of an axis of three that one projection is split into.

    The projection is [batch, rows, 3, heads, columns], perhaps turned to [3, batch, heads, rows, columns].
    """
    five = g.capture("five", reshaped(g, rows))
    turned = g.transpose(five, perm=[2, 0, 3, 1, 4])
    found = []
    for place, name in enumerate(PARTS):
        heads, split = _at(g, turned, place, 0), _at(g, five, place, 2)
        as_rows = g.capture(f"{name}_rows", g.any_of(joined(g, heads), reshaped(g, split)))
        found.append(g.any_of(as_rows, heads, g.transpose(split, perm=HEADS_FIRST)))
    return tuple(found)


def cut_time_first(g: Graph, rows: Tensor) -> tuple[Tensor, ...]:
    """The same, as torch.nn.MultiheadAttention does it, which has the rows before the batch.

    The projection [rows, batch, columns] is split into [1, rows, batch, 3, columns] and turned to [3, rows, batch, 1,
    columns].  Each part is split into [rows, batch · heads, columns] and turned to heads; keys perhaps twice.
    """
    lifted = g.capture("lifted", g.any_of(g.unsqueeze(reshaped(g, rows), [0]), reshaped(g, rows)))
    turned = g.transpose(lifted, perm=[3, 1, 2, 0, 4])
    found = []
    for place, name in enumerate(PARTS):
        part = g.gather(g.any_of(g.squeeze(turned, [-2]), g.squeeze(turned, [3])), place, axis=0)
        split = g.capture(f"{name}_split", reshaped(g, part))
        heads = g.capture(f"{name}_heads", reshaped(g, g.transpose(split, perm=[1, 0, 2])))
        columns = g.capture(f"{name}_columns", reshaped(g, g.transpose(split, perm=[1, 2, 0])))
        both = g.any_of(joined(g, heads), reshaped(g, g.transpose(columns, perm=[0, 3, 1, 2])))
        found.append(g.any_of(g.capture(f"{name}_rows", both), heads))
    return tuple(found)


def drops_axis(y: Tensor, x: Tensor, axis: int) -> None:
    """A Reshape takes out an axis of size 1."""
    require(x.shape is not None and x.shape[axis] == 1, "what is reshaped has no axis of size 1 there")
    require(y.shape == (*x.shape[:axis], *x.shape[axis + 1 :]), "a Reshape does more than to take out an axis")


def _at(g: Graph, x: Tensor, place: int, axis: int) -> Tensor:
    """One of three places along an axis, which goes."""
    splits = (
        g.split(x, axis=axis, num_outputs=3, outputs=3),
        g.split(x, [1, 1, 1], axis=axis, outputs=3),
        g.split(x, axis=axis, outputs=3),
    )
    slices = [g.slice(x, [place], g.any_tensor(), [axis], step) for step in (None, [1])]
    kept = g.named(g.any_of(*(split[place] for split in splits), *slices))
    dropped = g.such_that(reshaped(g, kept), drops_axis, kept, axis)
    return g.any_of(g.squeeze(kept, [axis]), dropped, g.gather(x, place, axis=axis))


def require_five(match: Match, heads: int, size: int) -> None:
    """What `cut_heads` cuts is split in three and into the heads of the attention, of so many columns, in order."""
    batch, rows = match["all"].shape[:2]
    found = match["five"].shape == (batch, rows, 3, heads, size)
    require(found, "the projection is not split in three and into the attention's heads")
    require_rows(match, (batch, rows, heads * size))


def require_time_first(match: Match, heads: int, size: int) -> None:
    """The same of what `cut_time_first` cuts."""
    rows, batch = match["all"].shape[:2]
    found = match["lifted"].shape == (1, rows, batch, 3, heads * size)
    require(found, "the projection is not split in three")
    for name in PARTS:
        split, told = match[f"{name}_split"].shape, NAMES[name]
        require(split is not None and len(split) == 3, f"the {told} have other axes than row, head, column")
        require(split[0] == rows, f"the {told} have {split[0]} rows, a number that the exporter wrote")
        is_split = split[1:] == (heads * batch, size)
        for kind, wanted in (("heads", (batch, heads, rows, size)), ("columns", (batch, heads, size, rows))):
            if f"{name}_{kind}" in match.bound:
                is_split = is_split and match[f"{name}_{kind}"].shape == wanted
        require(is_split, f"the {told} are not split into the attention's heads")
    require_rows(match, (batch, rows, heads * size))


def require_rows(match: Match, wanted: tuple[Any, ...]) -> None:
    """Heads that are joined again are so in their order."""
    for name in PARTS:
        if f"{name}_rows" in match.bound:
            require(match[f"{name}_rows"].shape == wanted, f"the heads of the {NAMES[name]} are joined in another way")


def require_cuts(match: Match, width: int) -> list[int]:
    """Slices take all columns, one part behind the other.  Returns the number of columns of each."""
    sizes = [require_columns(match[name], name) for name in PARTS]
    start = 0
    for name, size in zip(PARTS, sizes, strict=True):
        if f"{name}_from" in match.bound:
            given = match[f"{name}_from"]
            require(given.is_constant and given.values.size == 1, f"it is not fixed where the {NAMES[name]} begin")
            require(int(given.values.item()) % width == start, f"the {NAMES[name]} are not cut out behind the others")
        start += size
    require(start == width, "queries, keys and values are not the whole projection")
    return sizes


def require_columns(x: Tensor, name: str) -> int:
    """The fixed number of columns of [batch, rows, columns]."""
    fixed = x.rank == 3 and isinstance(x.shape[2], int)
    require(fixed, f"the number of columns of the {NAMES[name]} is unknown")
    return int(x.shape[2])
