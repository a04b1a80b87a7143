"""GroupQueryAttention with a past, for capped scores (Gemma 2, arXiv:2408.00118), and for copied heads."""

from typing import Any

from surgeon import Graph, Tensor, dims, require, rule
from ._decomposed_attention import AttentionScores, masked_scores, weighted_values
from ._emit_group_query import emit_group_query_attention, require_decode_shape, softcap_and_sink
from ._emit_ort import DIFFERS, compute_dtype, total_scale, with_nan_guard
from ._kv_heads import (
    AttentionWithPast,
    CachedKeysValues,
    concat_past,
    have_equal_pasts,
    maybe_packed,
    repeated_heads,
    require_cache_compatible,
)
from ._masks import additive_bias, broadcast_bias


class Capped(AttentionScores, CachedKeysValues):
    """softmax(cap · tanh(scale · q·kᵀ / cap) + mask)·v over keys and values that are appended to a past."""

    q: Tensor = dims("batch readers rows columns")


def capped(g: Graph, m: Capped) -> tuple[Tensor, ...]:
    """Attention of optionally capped scores, and the keys and values, with which the next step starts."""
    keys, values = concat_past(g, m.k), concat_past(g, m.v)
    own, others = (g.any_of(repeated_heads(g, x), x.x) for x in (m.k, m.v))
    return weighted_values(g, m, masked_scores(g, m, g.transpose(own, perm=[0, 1, 3, 2])), others), keys, values


def has_groups(m: Capped) -> None:
    """Require keys and values with the heads of the queries, or copies that give as many heads."""
    require(m.cap is not None or m.sink is not None, "the scores are not capped, so another op is used for the past")
    require(m.k.number == m.v.number, "keys and values have different numbers of heads")
    alike = (m.readers, m.columns) == (m.k.heads * m.k.number, m.k.columns)
    require(alike, "queries and keys must have the same head size and number of heads")
    require(m.k.columns == m.v.columns, "keys and values have different sizes")
    require(m.rows == m.k.after, "the queries and the new keys must have the same number of rows")


@rule(patterns=[capped], conditions=[have_equal_pasts, has_groups], differs=DIFFERS)
def softcap_attention_kv_cache(g: Graph, m: Capped) -> Any:
    """Fuse an attention with capped scores and a past into GroupQueryAttention.

    What: softmax(cap · tanh(scale · q·kᵀ / cap) + mask)·v.  Keys and values are appended to a past.  The kernel
    supports a past for several rows only in a batch of one, so the model must have one row or a batch of one.
    Otherwise only Attention can replace it, from opset 23 on.
    Numerics: rounding only for finite numbers.
    """
    parts, past, dtype = (m.q, m.k.new, m.v.new), (m.k.past, m.v.past), compute_dtype(m)
    require_decode_shape(m.q.shape[0], m.rows, m.columns)
    require(all(x.dtype == dtype for x in (*parts, *past)), "queries, keys, values and mask must have the same dtype")
    added, keys = additive_bias(g, m, dtype), m.k.x.shape[2]
    bias = broadcast_bias(g, m, added, keys=keys, count=lambda: g.add(g.size_of(m.k.past, 2), g.size_of(m.q, 2)))
    rows = [g.joined_heads(x) for x in parts]
    made, *present = emit_group_query_attention(
        g,
        rows,
        bias,
        heads=m.readers,
        groups=m.k.heads,
        past=past,
        scale=total_scale(m),
        **softcap_and_sink(g, m, m.readers),
    )
    return g.split_heads(with_nan_guard(g, m, made), m.readers, m.columns), *present


def of_copies(g: Graph, m: AttentionWithPast) -> tuple[Tensor, ...]:
    """MultiHeadAttention over copies of keys and values, and the originals, with which the next step starts."""
    keys, values = concat_past(g, m.k), concat_past(g, m.v)
    own, others = (maybe_packed(g, repeated_heads(g, x)) for x in (m.k, m.v))
    return g.ms_multi_head_attention(m.q, own, others, attention_bias=m.bias, **m.attributes), keys, values


@rule(patterns=[of_copies], conditions=[have_equal_pasts, require_cache_compatible], differs=DIFFERS)
def repeated_heads_kv_cache(g: Graph, m: AttentionWithPast) -> Any:
    """Share keys and values among heads of an attention, and append them to a past, with GroupQueryAttention.

    What: attention in which each head of keys and values serves several consecutive heads of queries.  The op reads the
    past and returns keys and values for the next step.  It supports a past for several rows only in a batch of one, so
    the model must have one row or a batch of one.  The rule is not in any group, because `query_heads_as_rows` and
    `attention_kv_cache` do not have this limit, and are faster on a CPU.  If you need GroupQueryAttention, name this
    rule before them.
    Numerics: rounding only for finite numbers.
    """
    heads = m.attributes["num_heads"]
    require(
        heads == m.k.heads * m.k.number, "the number of copied heads must equal the number of heads of the attention"
    )
    require(m.q.rank == 3, "the queries must have the axes batch, row, column")
    require(m.q.shape[1] == m.k.after, "the queries and the new keys must have the same number of rows")
    require_decode_shape(m.q.shape[0], m.k.after, m.k.columns)
    parts = (m.q, g.joined_heads(m.k.new), g.joined_heads(m.v.new))
    scale = {name: number for name, number in m.attributes.items() if name == "scale"}
    return emit_group_query_attention(
        g, parts, m.bias, heads=heads, groups=m.k.heads, past=(m.k.past, m.v.past), **scale
    )
