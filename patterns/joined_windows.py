"""Attention of windows whose scores have a mask, or whose scores a condition hides: windows as one batch."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule


class InWindows(Captures):
    """Queries, keys and values of five axes, and what is added to their scores or put in the place of some.

    kept, hidden: the condition for scores to count, or not to, in the place of which `low` is put.
    """

    q: Tensor = dims("batch windows heads rows _")
    kt: Tensor = dims("batch windows heads _ keys")
    v: Tensor = dims("batch windows heads keys width")
    scale: float | None = None
    mask: Tensor | Any = None
    second: Tensor | Any = None
    kept: Tensor | Any = None
    hidden: Tensor | Any = None
    low: float | Any = None
    windows: int
    heads: int
    rows: int
    width: int


def of_windows(g: Graph, m: InWindows) -> Tensor:
    """softmax(scale · q·kᵀ + mask)·v for [batch, window, head, row, column]."""
    product = g.matmul(m.q, m.kt)
    cold = g.any_of(g.mul(product, m.scale), product)
    biased = g.any_of(g.add(cold, m.mask, m.second), g.add(cold, m.mask), cold)
    hidden = g.any_of(g.where(m.kept, biased, m.low), g.where(m.hidden, m.low, biased))
    return g.matmul(g.softmax(g.any_of(hidden, biased), axis=-1), m.v)


def is_masked(m: InWindows) -> None:
    """What has no mask is found as it is."""
    require(any(one is not None for one in (m.mask, m.kept, m.hidden)), "the scores have no mask")


@rule(patterns=[of_windows], conditions=[is_masked], target="any")
def joined_windows(g: Graph, m: InWindows) -> Tensor:
    """Let windows of an attention with a mask be one batch, so that it is found as one of four axes.

    What: softmax(scale · q·kᵀ + mask)·v for [batch, window, head, row, column] (MaxViT, the Evoformer of AlphaFold).
    A mask of each window, or of each batch, is spread over the other where it is not of both.
    Numerics: none.
    """
    scores = g.matmul(joined(g, m.q), joined(g, m.kt))
    scores = scores if m.scale is None else g.mul(scores, m.scale)
    for mask in (m.mask, m.second):
        scores = scores if mask is None else g.add(scores, fitted(g, m, mask))
    if m.kept is not None:
        scores = g.where(fitted(g, m, m.kept), scores, m.low)
    elif m.hidden is not None:
        scores = g.where(fitted(g, m, m.hidden), m.low, scores)
    made = g.matmul(g.softmax(scores, axis=-1), joined(g, m.v))
    return g.reshape(made, [-1, m.windows, m.heads, m.rows, m.width])


def joined(g: Graph, x: Tensor) -> Tensor:
    """[batch · window, …] of [batch, window, …]."""
    sizes = x.shape[2:]
    require(all(isinstance(size, int) for size in sizes), "the sizes of heads, rows or columns are free")
    return g.reshape(x, [-1, *sizes])


def fitted(g: Graph, m: InWindows, mask: Tensor) -> Tensor:
    """A mask for windows that are one batch."""
    require(mask.shape is not None and mask.rank <= 5, "the shape of a mask is unknown, or has more axes than scores")
    sizes = (*[1] * (5 - mask.rank), *mask.shape)
    if sizes[:2] == (1, 1):
        return g.squeeze(mask, [0]) if mask.rank == 5 else mask
    wide = mask if mask.rank == 5 else g.unsqueeze(mask, [0])
    if 1 in sizes[:2]:
        wide = g.spread(wide, [g.size_of(m.q, 0) if sizes[0] == 1 else 1, m.windows if sizes[1] == 1 else 1, 1, 1, 1])
    require(all(isinstance(size, int) for size in sizes[2:]), "the sizes of a mask are free")
    return g.reshape(wide, [-1, *sizes[2:]])
