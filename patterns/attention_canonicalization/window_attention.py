"""Attention in windows with a mask or a condition on its scores: windows become part of the batch."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
from .._common.axes import is_within
from .._common.where_masks import WhereMask, where_masked, with_merged_batch_axes


class InWindows(WhereMask):
    """Queries, keys and values with five axes, tensors added to their scores, and `low`, which replaces some scores."""

    q: Tensor = dims("batch windows heads rows columns")
    kt: Tensor = dims("batch windows heads columns keys")
    v: Tensor = dims("batch windows heads keys width")
    scale: float | None = None
    mask: Tensor | Any = None
    second: Tensor | Any = None
    low: float | Any = None
    windows: int
    heads: int
    rows: int
    columns: int
    keys: int
    width: int


def of_windows(g: Graph, m: InWindows) -> Tensor:
    """softmax(scale · q·kᵀ + mask)·v for [batch, window, head, row, column]."""
    cold = g.optional(g.mul(g.matmul(m.q, m.kt), m.scale))
    biased = g.any_of(g.add(cold, m.mask, m.second), g.add(cold, m.mask), cold)
    return g.matmul(g.softmax(g.any_of(where_masked(g, m, biased, m.low), biased), axis=-1), m.v)


@rule(patterns=[of_windows], target="any")
def window_attention(g: Graph, m: InWindows) -> Tensor:
    """Merge the windows of an attention with a mask into the batch, so that the attention rules match four axes.

    What: softmax(scale · q·kᵀ + mask)·v for [batch, window, head, row, column] (MaxViT, the Evoformer of AlphaFold).  A
    mask that is the same for all windows or for all batches is expanded along that axis.
    Numerics: none.
    """
    require(
        m.mask is not None or m.low is not None,
        "the scores have no mask, so the attention rules match them as they are",
    )
    parts = {name: g.reshape(x, [-1, *x.shape[2:]]) for name, x in (("q", m.q), ("kt", m.kt), ("v", m.v))}
    masks = {"mask": m.mask, "second": m.second, "kept": m.kept, "hidden": m.hidden}
    fit = {name: fitted(g, m, mask) for name, mask in masks.items() if mask is not None}
    return g.reshape(of_windows(g, m.but(**parts, **fit)), [-1, m.windows, m.heads, m.rows, m.width])


def fitted(g: Graph, m: InWindows, mask: Tensor) -> Tensor:
    """Return a mask for windows that are part of the batch."""
    require(
        mask.shape is not None and mask.rank <= 5, "the shape of a mask is unknown, or it has more axes than the scores"
    )
    if mask.rank > 3 and mask.shape[:-3] not in ((1,), (1, 1)):
        require(all(isinstance(size, int) for size in mask.shape[-3:]), "a mask has dynamic sizes")
    score_sizes = (*m.q.shape[:4], m.keys)
    sizes = (*[1] * (5 - mask.rank), *mask.shape)
    for name, size, whole in zip(("batches", "windows", "heads", "rows", "keys"), sizes, score_sizes, strict=True):
        require(is_within(size, whole), f"a mask has {size} {name}, but the scores have {whole}")
    return with_merged_batch_axes(g, mask, 5, merged=score_sizes[:2], counts=(g.size_of(m.q, 0), m.windows))
