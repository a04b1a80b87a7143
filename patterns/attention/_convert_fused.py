"""Conversion of an attention that is one node to another op, or to primitives."""

from math import sqrt
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require
from ._attention_inputs import AttentionSpec, attention_spec
from ._emit_onnx import keep_fully_masked_rows
from ._fused_attention import FusedAttention
from ._masks import MASKING_THRESHOLD, leaves_a_key_in_each_row


def in_original_layout(g: Graph, made: Tensor, found: AttentionSpec) -> Tensor:
    """Return the result in the layout of the original node."""
    return g.joined_heads(made, found.heads * found.v_head_size) if found.is_packed else made


def with_present(g: Graph, m: FusedAttention, made: Tensor, found: AttentionSpec) -> list[Tensor]:
    """Return the result in the original layout, and the keys and values with the past if the node returned them."""
    whole = [in_original_layout(g, made, found), found.k, found.v][: m.output_count]
    return [g.in_dtype(x, m.q.dtype) for x in whole]


def to_onnx_attention(g: Graph, m: FusedAttention) -> list[Tensor]:
    """Write the node as Attention."""
    require(m.past_key is None or not m.is_causal, "with a past, is_causal counts the rows from the end of the past")
    found = attention_spec(g, m)
    mask = found.bias
    if mask is not None and not found.is_condition:
        mask = keep_fully_masked_rows(
            g, mask, found.dtype, has_nan=m.bias is not None and not leaves_a_key_in_each_row(m.bias, MASKING_THRESHOLD)
        )
    numbers: dict[str, Any] = {"softcap": found.cap or None, "is_causal": int(found.is_causal) or None}
    return with_present(g, m, g.attention(found.q, found.k, found.v, mask, scale=found.scale, **numbers), found)


def decompose_attention(g: Graph, m: FusedAttention) -> list[Tensor]:
    """Write the node in primitives.  A fully masked row of Attention (ONNX) is zero."""
    found = attention_spec(g, m, is_wide=True)
    copies = found.heads // found.kv_heads
    keys, values = (
        x if copies == 1 else g.repeated_heads(x, found.kv_heads, copies, columns)
        for x, columns in ((found.k, found.head_size), (found.v, found.v_head_size))
    )
    require(found.scale >= 0, "the scale of the scores is negative, so it has no square root")
    root = sqrt(
        found.scale
    )  # on both factors, as in the ONNX specification, so that a product in half precision stays small
    scores = g.matmul(g.mul(found.q, root), g.transpose(g.mul(keys, root), perm=[0, 1, 3, 2]))
    if found.cap:
        scores = g.mul(g.tanh(g.div(scores, found.cap)), found.cap)
    never = np.array(-np.inf, found.dtype)
    if found.bias is not None:
        scores = g.where(found.bias, scores, never) if found.is_condition else g.add(scores, found.bias)
    if found.is_causal:
        sides = [g.size_of(x, 2) for x in (found.q, found.k)]
        before = None if m.past_key is None else g.squeeze(g.size_of(m.past_key, 2), [0])
        below = g.trilu(g.spread(g.literal(np.ones(1, np.bool_)), sides), before, upper=0)
        scores = g.where(below, scores, never)
    weights = g.softmax(scores, axis=-1)
    if m.onnx_output is not None and (found.bias is not None or found.is_causal):
        weights = g.where(g.isnan(weights), np.zeros((), found.dtype), weights)
    return with_present(g, m, g.matmul(weights, values), found)
