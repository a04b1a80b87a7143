"""Attention that takes a past: keys and values are put behind it by the op, which also gives the next step's."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from ._cache import behind, is_a_cache, is_plain, maybe_joined, rows_of

Outputs = tuple[Tensor, Tensor, Tensor]


def with_a_past(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    bias: Tensor | None = None,
    **attributes: Any,
) -> Outputs:
    """MultiHeadAttention, and the keys and values that it reads, which the next step starts with."""
    keys, values = behind(g, past_key, k, "keys"), behind(g, past_value, v, "values")
    made = g.ms_multi_head_attention(q, maybe_joined(g, keys), maybe_joined(g, values), None, None, bias, **attributes)
    return made, keys, values


def standard_with_a_past(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    bias: Tensor | None = None,
    **attributes: Any,
) -> Outputs:
    """Attention, and the keys and values that it reads, which the next step starts with."""
    keys, values = behind(g, past_key, k, "keys"), behind(g, past_value, v, "values")
    return g.attention(q, keys, values, bias, **attributes), keys, values


@rule(patterns=[with_a_past], conditions=[is_a_cache, is_plain])
def attention_cache(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    attributes: dict[str, Any],
    bias: Tensor | None = None,
) -> Any:
    """Let MultiHeadAttention put keys and values behind those of a past, and give them for the next step.

    What: MultiHeadAttention takes the past as `past_key` and `past_value`; its outputs `present_key` and
    `present_value` are what was concatenated before.
    Numerics: rounding only.
    """
    require(attributes["num_heads"] == k.shape[1], "the past has other heads than the attention")
    parts = (q, rows_of(g, k), rows_of(g, v), None, None, bias, past_key, past_value)
    return g.ms_multi_head_attention(*parts, outputs=3, **attributes)


@rule(patterns=[standard_with_a_past], conditions=[is_a_cache], target="onnx", opset=23)
def standard_attention_cache(
    g: Graph,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    attributes: dict[str, Any],
    bias: Tensor | None = None,
) -> Any:
    """Let Attention put keys and values behind those of a past, and give them for the next step.

    What: Attention takes the past as `past_key` and `past_value`; its outputs `present_key` and `present_value` are
    what was concatenated before.
    Numerics: rounding only.
    """
    require(q.rank == 4, "the queries have other axes than batch, head, row, column")
    require(not attributes.get("is_causal"), "with a past, is_causal would count rows from its end")
    return g.attention(q, k, v, bias, past_key, past_value, outputs=3, **attributes)
