"""Whole attention layers: one input, its projections to queries, keys and values, and the attention over them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from surgeon import Graph, require, rule
from ._projections import (
    AttentionLayer,
    PackedProjection,
    PackedProjectionWithPast,
    Projection,
    SeparateProjections,
    linear,
    maybe_heads_first,
    multi_head_attention,
)

Array = np.ndarray[Any, np.dtype[Any]]


def cut_in_three(g: Graph, m: PackedProjection) -> Any:
    """MultiHeadAttention over parts of one projection.  Keys and values may have heads as an axis."""
    m.q.made, m.k.made, m.v.made = g.parts(linear(g, m.x, m.whole), 3, -1)
    return multi_head_attention(g, m, m.q.made, *(maybe_heads_first(g, part, part.made) for part in (m.k, m.v)))


def cut_along_an_axis(g: Graph, m: PackedProjection) -> Any:
    """The same over one projection whose columns are split into three parts and into heads.

    The projection is [batch, rows, 3, heads, columns], optionally transposed to [3, batch, heads, rows, columns].
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
    """Fuse an attention and the projection that contains its queries, keys and values into Attention.

    What: attention over the thirds of x @ w + b, or over parts of other sizes, as com.microsoft::Attention.
    Numerics: rounding only.
    Speed: on a CPU (ONNX Runtime 1.31, one thread) one sequence takes 0 to 4 % less time than with MultiHeadAttention:
    4 % in encoder layers of torch at 128 rows and in GPT-2 at 512.  The kernel computes one product for each sequence
    and head.  Therefore eight sequences of 64 rows take up to 3 % more in GPT-2, and the same time in encoder layers of
    torch.
    """
    sizes = [m.q.columns, m.k.columns, m.v.columns] if m.five is None else [m.whole.columns // 3] * 3
    return whole(g, m, [m.whole], sizes)


def with_past(g: Graph, m: PackedProjectionWithPast) -> Any:
    """The same as cut_in_three over keys and values with a past.  The next step starts with both in one tensor."""
    m.q.made, m.k.made, m.v.made = g.parts(linear(g, m.x, m.whole), 3, -1)
    keys, values = g.unstacked(m.past, 2, 0)
    made, *present = g.ms_multi_head_attention(
        *(m.q.made, m.k.made, m.v.made, m.qkv_bias), past_key=keys, past_value=values, **m.attributes, outputs=3
    )
    return made, g.concat(*(g.unsqueeze(x, [0]) for x in present), axis=0)


@rule(patterns=[with_past])
def packed_qkv_kv_cache(g: Graph, m: PackedProjectionWithPast) -> Any:
    """Fuse an attention with a past, and the projection that contains its queries, keys and values, into Attention.

    What: as `packed_qkv_attention`.  The past keys and values are one tensor, [2, batch, heads, past, columns], and so
    are those for the next step.  The kernel does not support a bias of the scores together with a past.
    Numerics: rounding only.
    """
    require(m.k.columns == m.v.columns, "keys and values have different sizes")
    return whole(g, m, [m.whole], [m.q.columns, m.k.columns, m.v.columns], past=m.past, outputs=2)


def by_three(g: Graph, m: SeparateProjections) -> Any:
    """MultiHeadAttention over three projections of one tensor.  Keys and values may have heads as an axis."""
    k, v = (maybe_heads_first(g, part, linear(g, m.x, part)) for part in (m.k, m.v))
    return multi_head_attention(g, m, linear(g, m.x, m.q), k=k, v=v)


@rule(patterns=[by_three], ep="cuda")
def separate_qkv_attention(g: Graph, m: SeparateProjections) -> Any:
    """Fuse an attention and the three projections of its input into Attention, which computes them as one product.

    What: attention over x @ wq + bq, x @ wk + bk and x @ wv + bv, as com.microsoft::Attention.  The weights stay
    unchanged in their files.  A Concat joins them, which ONNX Runtime computes once, on loading.
    Numerics: rounding only.
    Speed: not useful on a CPU, whose kernel computes one product for each sequence and head.  BERT-base takes as long
    as with MultiHeadAttention after three products (ONNX Runtime 1.31, one thread, 32 to 512 rows: 1 % less to 3 %
    more).
    """
    is_fixed = all(part.w.is_constant for part in (m.q, m.k, m.v))
    require(is_fixed, "the weights must be constants, so that they are joined only once")
    return whole(g, m, [m.q, m.k, m.v], [m.q.columns, m.k.columns, m.v.columns])


def whole(g: Graph, m: AttentionLayer, made: Sequence[Projection], sizes: Sequence[int], **more: Any) -> Any:
    """Write com.microsoft::Attention with the projections of x. sizes: columns of queries, keys and values."""
    attributes = dict(m.attributes)
    heads = attributes["num_heads"]
    for part in (m.q, m.k, m.v):
        is_split = part.heads in (None, heads) and part.batch in (None, m.batch)
        require(is_split, "queries, keys and values must be split into the heads of the attention")
    require(sizes[0] == sizes[1], "queries and keys have different numbers of columns")
    require(all(size % heads == 0 for size in sizes), "the number of columns must be a multiple of the number of heads")
    if sizes[2] != sizes[0]:
        attributes["qkv_hidden_sizes"] = list(sizes)
    weights = [g.transpose(one.w, perm=[1, 0]) if one.turned else one.w for one in made]
    beside = weights[0] if len(made) == 1 else g.concat(*weights, axis=1)
    rows = None if m.mask is None else g.size_of(m.x, 1)
    bias = m.bias if rows is None else g.spread(m.mask, [1, 1, rows, rows])
    return g.ms_attention(m.x, beside, biases_of(g, m, made), attention_bias=bias, **attributes, **more)


def biases_of(g: Graph, m: AttentionLayer, made: Sequence[Projection]) -> Any:
    """Return the biases of all projections, one after the other."""
    if m.qkv_bias is not None:
        is_in_rows = all(part.apart is None for part in (m.k, m.v)) and all(one.b is None for one in made)
        require(is_in_rows, "the attention adds a bias to queries, keys and values, and so do their projections")
        return m.qkv_bias
    found = [bias_of(one, m.x.dtype) for one in made]
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if all(isinstance(x, np.ndarray) for x in found) else g.concat(*found, axis=0)


def bias_of(made: Projection, dtype: Any) -> Any:
    """Return the bias of a projection, or zeros if it has none: the CPU kernel needs a bias."""
    if made.b is not None and made.b.shape == (made.columns,) and not made.b.is_constant:
        return made.b
    values: Array = np.zeros(1, dtype) if made.b is None else made.b.values
    is_row = values.size in (1, made.columns) and values.shape[-1:] in ((), (values.size,))
    require(is_row and values.ndim <= 3, "a bias must run along only the columns")
    return np.broadcast_to(values.reshape(-1), (made.columns,))
