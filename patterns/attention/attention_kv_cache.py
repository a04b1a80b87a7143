"""Attention that takes a past: keys and values are put behind it by the op, which also gives the next step's."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._kv_heads import AttentionWithPast, concat_past, have_equal_pasts, maybe_packed, require_cache_compatible


def with_a_past(g: Graph, m: AttentionWithPast) -> tuple[Tensor, ...]:
    """Attention, and the keys and values that it reads, which the next step starts with."""
    keys, values = concat_past(g, m.k), concat_past(g, m.v)
    own, others = maybe_packed(g, keys), maybe_packed(g, values)
    m.standard = g.attention(m.q, keys, values, m.bias, **m.attributes)
    made = g.ms_multi_head_attention(m.q, own, others, attention_bias=m.bias, **m.attributes)
    return g.any_of(made, m.standard), keys, values


@rule(patterns=[with_a_past], conditions=[have_equal_pasts], target="any")
def attention_kv_cache(g: Graph, m: AttentionWithPast) -> Any:
    """Let an attention put keys and values behind those of a past, and give them for the next step.

    What: MultiHeadAttention and Attention take the past as `past_key` and `past_value`; their outputs `present_key` and
    `present_value` are what was concatenated before.
    Numerics: rounding only.
    """
    past: dict[str, Any] = {"past_key": m.k.past, "past_value": m.v.past, "outputs": 3}
    if m.standard is not None:
        require(m.q.rank == 4, "the queries have other axes than batch, head, row, column")
        require(not m.attributes.get("is_causal"), "with a past, is_causal would count rows from its end")
        return g.attention(m.q, m.k.new, m.v.new, m.bias, **past, **m.attributes)
    require_cache_compatible(m)
    require(m.attributes["num_heads"] == m.k.heads, "the past has other heads than the attention")
    keys, values = g.joined_heads(m.k.new), g.joined_heads(m.v.new)
    return g.ms_multi_head_attention(m.q, keys, values, attention_bias=m.bias, **past, **m.attributes)
