"""A condition that hides scores while these are split into batches and heads, as fairseq has it."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require, rule


class Split(Captures):
    """Scores x of [batch · head, row, key], split for a condition and joined again.

    kept, hidden: the condition for a score to stay, or not to, in the place of which `low` is put.
    """

    x: Tensor = dims("_ rows keys")
    split: Tensor = dims("batch heads _ _")
    chosen: Tensor
    y: Tensor
    kept: Tensor | Any = None
    hidden: Tensor | Any = None
    low: float
    heads: int


def while_split(g: Graph, m: Split) -> Tensor:
    """Where, between two reshapes."""
    m.split = g.reshaped(m.x)
    m.chosen = g.any_of(g.where(m.kept, m.split, m.low), g.where(m.hidden, m.low, m.split))
    m.y = g.reshaped(m.chosen)
    return m.y


@rule(patterns=[while_split], target="any", opset=9)
def joined_condition(g: Graph, m: Split) -> Tensor:
    """Hide scores where they are not split, by a condition of all batches and heads, so that an attention is found.

    What: scores of [batch · head, row, key] that are split into [batch, head, row, key] for a Where alone, whose
    condition is one for all heads of a batch, as fairseq has it, torchscale and Emformer.
    Numerics: none.
    """
    require(m.y.shape == m.x.shape and m.split.shape[2:] == m.x.shape[1:], "the scores are split or joined otherwise")
    require(m.chosen.shape == m.split.shape, "the condition has more batches, heads, rows or keys than the scores")
    if m.kept is not None:
        return g.where(joined(g, m, m.kept), m.x, m.low)
    return g.where(joined(g, m, m.hidden), m.low, m.x)


def joined(g: Graph, m: Split, condition: Tensor) -> Tensor:
    """A condition of [batch · head, row, key], or of a batch of one."""
    require(condition.shape is not None, "the shape of the condition is unknown")
    if condition.rank < 3:
        return condition
    batch, heads = (*[1] * (4 - condition.rank), *condition.shape)[:2]
    require(heads == 1, "the condition is not one for all heads")
    if batch == 1:
        return condition if condition.rank == 3 else g.squeeze(condition, [0])
    sides = [g.size_of(condition, axis) for axis in (2, 3)]
    return g.reshape(g.spread(condition, [1, m.heads, 1, 1]), g.concat(np.array([-1]), *sides, axis=0))
