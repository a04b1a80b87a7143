"""Heads that are part of the batch of an attention with only one head."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require, rule
from .._common.axes import is_same_size
from .sequence_first import swap_batch_and_sequence


class Part(Captures):
    """Queries, keys or values x before their heads become part of the batch: joined in one axis, or separate."""

    x: Tensor = dims("rows _ columns", "_ rows heads size")
    one: Tensor | Any = dims("rows _ size", default=None)
    merged: Tensor = dims("_ rows size")
    size: int
    heads: int = 0
    columns: int = 0

    @property
    def number(self) -> int:
        """The number of heads."""
        return self.heads or self.columns // self.size


class Merged(Captures):
    """MultiHeadAttention of one head whose batch axis contains batches and heads, and its split result."""

    q: Part
    k: Part
    v: Part
    bias: Tensor | Any = dims("_ 1 _ _", default=None)
    moved: Tensor | Any = None
    y: Tensor
    attributes: dict[str, Any]


def attention(g: Graph, m: Merged) -> Tensor:
    """The attention over merged batches."""
    parts = (m.q.merged, m.k.merged, m.v.merged)
    made: Tensor = g.ms_multi_head_attention(*parts, attention_bias=m.bias, num_heads=1, **m.attributes)
    return made


def behind_rows(g: Graph, m: Merged) -> Tensor:
    """Heads of rows before the batch, as in torch.nn.MultiheadAttention if it also returns its weights."""
    for part in (m.q, m.k, m.v):
        part.one = g.reshaped(part.x)
        part.merged = swap_batch_and_sequence(g, part.one)
    m.y = g.reshaped(swap_batch_and_sequence(g, attention(g, m)))
    return m.y


def before_batch(g: Graph, m: Merged) -> Tensor:
    """Heads before the batch, as in the first PyTorch code of transformers and in FastSpeech."""
    for part in (m.q, m.k, m.v):
        part.merged = g.reshaped(g.transpose(part.x, perm=[2, 0, 1, 3]))
    m.moved = g.reshaped(attention(g, m))
    m.y = g.transpose(m.moved, perm=[1, 2, 0, 3])
    return m.y


def bias_of_heads(g: Graph, m: Merged, heads: int) -> Tensor:
    """Return the bias of the scores, [batch · heads, 1, rows, keys], reshaped so that heads have a separate axis.

    A first size that may be 1 at run time is broadcast.  Reshape gets both sizes, because -1 is undefined for an empty
    batch.
    """
    is_first = m.moved is not None
    batch, number = g.size_of(m.q.x, 0 if is_first else 1), np.array([heads], np.int64)
    whole = m.bias
    if not is_same_size(whole.shape[0], m.q.merged.shape[0]):
        whole = g.spread(whole, [g.mul(batch, number), 1, 1, 1])
    ahead = (number, batch) if is_first else (batch, number)
    apart = g.reshape(whole, g.concat(*ahead, np.zeros(2, np.int64), axis=0))
    return g.transpose(apart, perm=[1, 0, 2, 3]) if is_first else apart


@rule(patterns=[behind_rows, before_batch])
def heads_in_batch(g: Graph, m: Merged) -> Tensor:
    """Give MultiHeadAttention the heads that are part of its batch, so that they need not be moved there.

    What: MultiHeadAttention of one head over [batch · heads, rows, size].  Each batch contains its heads, or each head
    its batches, before and after the attention.
    Numerics: none.
    """
    heads, is_first = m.q.number, m.moved is not None
    require(heads == m.k.number == m.v.number, "queries, keys and values have different numbers of heads")
    q, k, v = (g.reshape(x, [0, 0, -1]) if is_first else swap_batch_and_sequence(g, x) for x in (m.q.x, m.k.x, m.v.x))
    bias = m.bias
    if bias is not None and bias.shape[0] != 1:
        bias = bias_of_heads(g, m, heads)
    made = g.ms_multi_head_attention(q, k, v, attention_bias=bias, **{**m.attributes, "num_heads": heads})
    width = heads * m.v.size
    if is_first:
        require(m.moved.shape[0] == heads, "heads and batches are split in another way")
        return g.reshape(made, [0, 0, heads, m.v.size])
    require(m.y.shape is not None and m.y.shape[-1] == width, "the heads must be joined after the attention")
    made = swap_batch_and_sequence(g, made)
    return made if m.y.rank == 3 else g.reshape(made, [-1, width])
