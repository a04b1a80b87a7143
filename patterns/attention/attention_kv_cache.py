"""Attention with a past: the op itself appends keys and values to the past, and returns them for the next step."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._kv_heads import AttentionWithPast, concat_past, have_equal_pasts, maybe_packed, require_cache_compatible


def with_a_past(g: Graph, m: AttentionWithPast) -> tuple[Tensor, ...]:
    """Attention, and the keys and values that it reads, with which the next step starts."""
    keys, values = concat_past(g, m.k), concat_past(g, m.v)
    own, others = maybe_packed(g, keys), maybe_packed(g, values)
    m.standard = g.attention(m.q, keys, values, m.bias, **m.attributes)
    made = g.ms_multi_head_attention(m.q, own, others, attention_bias=m.bias, **m.attributes)
    return g.any_of(made, m.standard), keys, values


@rule(patterns=[with_a_past], conditions=[have_equal_pasts], target="any")
def attention_kv_cache(g: Graph, m: AttentionWithPast) -> Any:
    """Fuse the Concats of keys and values with their past into an attention, which also returns them for the next step.

    What: MultiHeadAttention and Attention read the past as `past_key` and `past_value`.  Their outputs `present_key`
    and `present_value` replace the Concats.
    Numerics: rounding only.
    """
    past: dict[str, Any] = {"past_key": m.k.past, "past_value": m.v.past, "outputs": 3}
    if m.standard is not None:
        require(m.q.rank == 4, "the queries must have the axes batch, head, row, column")
        require(not m.attributes.get("is_causal"), "with a past, is_causal counts the rows from the end of the past")
        return g.attention(m.q, m.k.new, m.v.new, m.bias, **past, **m.attributes)
    require_cache_compatible(m)
    require(m.attributes["num_heads"] == m.k.heads, "the past and the attention must have the same number of heads")
    keys, values = g.joined_heads(m.k.new), g.joined_heads(m.v.new)
    return g.ms_multi_head_attention(m.q, keys, values, attention_bias=m.bias, **past, **m.attributes)
