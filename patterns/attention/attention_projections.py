"""Whole attention layers: one input, its projections to queries, keys and values, and the attention between them."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from surgeon import Graph, require, rule
from ._projections import (
    AttentionLayer,
    PackedProjection,
    Projection,
    SeparateProjections,
    linear,
    maybe_heads_first,
    multi_head_attention,
)

Array = np.ndarray[Any, np.dtype[Any]]


def cut_in_three(g: Graph, m: PackedProjection) -> Any:
    """MultiHeadAttention of parts of one projection; keys and values may come as heads."""
    m.q.made, m.k.made, m.v.made = g.parts(linear(g, m.x, m.whole), 3, -1)
    return multi_head_attention(g, m, m.q.made, *(maybe_heads_first(g, part, part.made) for part in (m.k, m.v)))


def cut_along_an_axis(g: Graph, m: PackedProjection) -> Any:
    """The same, of one projection whose columns are split in three and into heads.

    The projection is [batch, rows, 3, heads, columns], perhaps turned to [3, batch, heads, rows, columns].
    """
    m.five = g.reshaped(linear(g, m.x, m.whole))
    turned = g.unstacked(g.transpose(m.five, perm=[2, 0, 3, 1, 4]), 3, 0)
    found = []
    for part, heads, split in zip((m.q, m.k, m.v), turned, g.unstacked(m.five, 3, 2), strict=True):
        part.apart, part.split = heads, split
        part.joined = g.any_of(g.joined_heads(part.apart), g.reshaped(part.split))
        found.append(g.any_of(part.joined, part.apart, g.heads_first(part.split)))
    return multi_head_attention(g, m, *found)


@rule(patterns=[cut_in_three, cut_along_an_axis])
def packed_qkv_attention(g: Graph, m: PackedProjection) -> Any:
    """Fuse an attention and the projection that its queries, keys and values are cut out of into Attention.

    What: attention of the thirds of x @ w + b, or of parts of other sizes, as com.microsoft::Attention.  A number that
    the queries are multiplied with becomes part of the scale.
    Numerics: rounding only.

    On a CPU (ONNX Runtime 1.31, one thread) one sequence takes 0 to 4 % less time than with MultiHeadAttention: 4 % in
    torch's encoder layers at 128 rows and in GPT-2 at 512.  The kernel makes a product for each sequence and head, so
    eight sequences of 64 rows take up to 3 % more in GPT-2, and as long in torch's layers.
    """
    sizes = [m.q.columns, m.k.columns, m.v.columns] if m.five is None else [m.whole.columns // 3] * 3
    return whole(g, m, [m.whole], sizes)


def by_three(g: Graph, m: SeparateProjections) -> Any:
    """MultiHeadAttention of three projections of one tensor; keys and values may come as heads."""
    k, v = (maybe_heads_first(g, part, linear(g, m.x, part)) for part in (m.k, m.v))
    return multi_head_attention(g, m, linear(g, m.x, m.q), k=k, v=v)


@rule(patterns=[by_three], ep="cuda")
def separate_qkv_attention(g: Graph, m: SeparateProjections) -> Any:
    """Fuse an attention and the three projections of its one input into Attention, which makes them by one product.

    What: attention of x @ wq + bq, x @ wk + bk and x @ wv + bv, as com.microsoft::Attention.  A number that the queries
    are multiplied with becomes part of the scale.  The weights stay as they are, in their files: a Concat puts them
    beside each other, which ONNX Runtime does once, on loading.
    Numerics: rounding only.

    Not for a CPU, whose kernel makes a product for each sequence and head: BERT-base takes as long as with
    MultiHeadAttention behind three products (ONNX Runtime 1.31, one thread, 32 to 512 rows: 1 % less to 3 % more).
    """
    return whole(g, m, [m.q, m.k, m.v], [m.q.columns, m.k.columns, m.v.columns])


def whole(g: Graph, m: AttentionLayer, made: Sequence[Projection], sizes: Sequence[int]) -> Any:
    """com.microsoft::Attention of the projections of x, of so many columns for queries, keys and values."""
    attributes = dict(m.attributes)
    heads = attributes["num_heads"]
    for part in (m.q, m.k, m.v):
        is_split = part.heads in (None, heads) and part.batch in (None, m.batch)
        require(is_split, "queries, keys or values are not split into the attention's heads")
    require(sizes[0] == sizes[1], "queries and keys have different numbers of columns")
    require(all(size % heads == 0 for size in sizes), "the columns cannot be shared among the heads")
    if sizes[2] != sizes[0]:
        attributes["qkv_hidden_sizes"] = list(sizes)
    if m.factor is not None:
        scale = m.factor * (attributes.get("scale", 0.0) or (sizes[0] // heads) ** -0.5)
        require(isfinite(scale) and np.float32(scale) != 0, "a scale of 0 means another to ONNX Runtime")
        attributes["scale"] = scale
    weights = [g.transpose(one.w, perm=[1, 0]) if one.turned else one.w for one in made]
    beside = weights[0] if len(made) == 1 else g.concat(*weights, axis=1)
    biases = np.concatenate([bias_of(one, m.x.dtype) for one in made])  # also of zeros: the CPU's kernel needs them
    rows = None if m.mask is None else g.size_of(m.x, 1)
    bias = m.bias if rows is None else g.spread(m.mask, [1, 1, rows, rows])
    return g.ms_attention(m.x, beside, biases, attention_bias=bias, **attributes)


def bias_of(made: Projection, dtype: Any) -> Array:
    """The bias of a projection; zeros where there is none."""
    values = np.zeros(1, dtype) if made.b is None else made.b.values
    is_row = values.size in (1, made.columns) and values.shape[-1:] in ((), (values.size,))
    require(is_row and values.ndim <= 3, "a bias has other axes than that of the columns")
    return np.broadcast_to(values.reshape(-1), (made.columns,))
