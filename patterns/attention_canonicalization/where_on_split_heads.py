"""A condition that hides scores while they are split into batches and heads, as in fairseq."""

import numpy as np

from surgeon import Graph, Tensor, dims, require, rule
from .._common.where_masks import WhereMask, where_masked, with_merged_batch_axes


class Split(WhereMask):
    """Scores x of [batch · head, row, key], split for a condition that inserts `low`, and merged again."""

    x: Tensor = dims("_ rows keys")
    split: Tensor = dims("batch heads _ _")
    chosen: Tensor
    y: Tensor
    low: float
    heads: int


def while_split(g: Graph, m: Split) -> Tensor:
    """A Where between two Reshapes."""
    m.split = g.reshaped(m.x)
    m.chosen = where_masked(g, m, m.split, m.low)
    m.y = g.reshaped(m.chosen)
    return m.y


@rule(patterns=[while_split], target="any", opset=9)
def where_on_split_heads(g: Graph, m: Split) -> Tensor:
    """Hide scores without splitting them, with a condition for all batches and heads, so that attention rules match.

    What: scores of [batch · head, row, key] that are split into [batch, head, row, key] only for a Where.  Its
    condition is the same for all heads of a batch. fairseq, torchscale and Emformer do this.
    Numerics: none.
    """
    require(
        m.y.shape == m.x.shape and m.split.shape[2:] == m.x.shape[1:],
        "the scores must be split into batches and heads, and merged again",
    )
    require(m.chosen.shape == m.split.shape, "the condition has more batches, heads, rows or keys than the scores")
    condition = m.condition[0]
    require(condition.shape is not None, "the shape of the condition is unknown")
    require(condition.rank < 3 or condition.shape[-3] == 1, "the condition must be the same for all heads")
    counts = (g.div(g.size_of(m.x, 0), np.array([m.heads], np.int64)), m.heads)
    return where_masked(
        g, m.under(with_merged_batch_axes(g, condition, 4, merged=m.split.shape[:2], counts=counts)), m.x, m.low
    )
