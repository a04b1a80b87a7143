"""Code that attention rules share: checks and dtypes of the scores, and the ops of ONNX Runtime."""

from math import prod
from typing import Any

import numpy as np
from onnx import helper

from surgeon import Captures, Graph, Tensor, require
from ._decomposed_attention import AttentionCore, AttentionScores
from ._emit_group_query import emit_group_query_attention, require_equal_lengths, softcap_and_sink
from ._inputs import batched_qkv, scaled_queries, with_window_axes
from ._masks import additive_bias, broadcast_bias

FLOATS = ("float32", "float16", "bfloat16", "float64")
DIFFERS = {"non_finite": "an infinity or NaN may spread to other numbers of its row, or not reach them"}


def is_core_supported(m: Captures) -> None:
    """Require the axes batch, heads, rows and columns, or batch, rows and columns with one head.

    One head of keys and values may serve all heads of queries (multi-query attention, Shazeer, arXiv:1911.02150).
    """
    if not isinstance(m, AttentionCore):
        return
    require(m.q.rank == m.kt.rank == m.v.rank, "queries, keys and values have different numbers of axes")
    require(m.q.dtype is None or m.q.dtype in FLOATS, "the queries must be float16, bfloat16, float32 or float64")
    alike = m.groups == m.others and m.groups in (1, m.heads)
    require(alike, "queries, keys and values have different numbers of heads")
    if m.q.rank == 5:
        is_fixed = all(isinstance(size, int) for x in (m.q, m.kt, m.v) for size in x.shape[1:])
        require(is_fixed and not m.given, "attention in windows must have fixed sizes and no mask")


def total_scale(m: AttentionScores) -> float:
    """Return the product of all numbers that multiply the scores."""
    scale = float(prod((m.left, m.right, m.scale)))
    least, most = (float(number) for number in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))
    require(
        least <= abs(scale) <= most,
        f"a scale of {scale:g} does not fit the attribute of an op: it is float32, and 0 means the default",
    )
    return scale


def result_dtype(m: AttentionScores) -> Any:
    """Return the dtype in which the weights multiply the values."""
    return m.read.dtype if m.wide is None else np.dtype(helper.tensor_dtype_to_np_dtype(m.wide))


def compute_dtype(m: AttentionScores) -> Any:
    """Return the dtype to compute in: the dtype of the result, or of a more precise mask to which the scores were cast.

    Constant zeros, which exporters write for a baddbmm that adds nothing, do not count.
    """
    made, own = result_dtype(m), m.read.dtype
    require(made is not None and own is not None, "the dtype of the values is unknown")
    require(own in FLOATS, "the values must be float16, bfloat16, float32 or float64")
    require(np.promote_types(made, own) == made, "the values are cast to a dtype with fewer digits")
    for mask in m.masks:
        is_zero = mask.choice is not None and mask.choice.is_uniform and mask.choice.inside == 0
        made = made if mask.dtype is None or is_zero else np.promote_types(mask.dtype, made)
    require_no_double(made)
    return made


def core_dtype(m: AttentionCore) -> Any:
    """Return the same, or the dtype of queries and keys that have more digits: a large scale would show the rounding.

    Queries and keys that were cast from the dtype of the result have no more digits.
    """
    made = compute_dtype(m)
    for x in (m.q, m.kt):
        wide = made if x.dtype is None else np.promote_types(x.dtype, made)
        made = made if wide == made or x.is_cast_from(made) else wide
    require_no_double(made)
    return made


def require_no_double(dtype: Any) -> None:
    """Refuse doubles: ONNX Runtime has no kernel for them, and the function body of Attention has a float32 scale."""
    require(dtype != "float64", "no attention op computes in float64")


def packed_qkv(g: Graph, m: AttentionCore, dtype: Any) -> list[Tensor]:
    """Return queries, keys and values as [batch, rows, heads · columns] in a dtype.  One head for all is repeated."""
    heads, (q, k, v) = m.heads, (cast_narrower(g, x, dtype) for x in (scaled_queries(g, m, dtype), m.kt, m.v))
    perm = [0, 3, 1, 2]  # one Transpose for transposed keys, because the Transpose before cancels it
    if m.groups != heads:
        turned, perm = g.transpose(k, perm=[0, 1, 3, 2]), [0, 2, 1, 3]
        k, v = g.repeated_heads(turned, 1, heads, m.columns), g.repeated_heads(v, 1, heads, m.width)
    k = g.reshape(g.transpose(k, perm=perm), [0, 0, heads * m.columns])
    rows = (g.joined_heads(q, heads * m.columns), k, g.joined_heads(v, heads * m.width))
    return [g.in_dtype(x, dtype) for x in rows]


def cast_narrower(g: Graph, x: Tensor, dtype: Any) -> Tensor:
    """Cast x to a dtype with fewer digits before it is moved, so that a widening Cast cancels.  Otherwise return x."""
    is_finer = x.dtype is not None and np.promote_types(x.dtype, dtype) != dtype
    return g.cast(x, to=dtype) if is_finer else x


def with_nan_guard(g: Graph, m: AttentionScores, made: Tensor) -> Tensor:
    """Return the output of an op in the dtype of the result, with the NaN guard of the softmax."""
    return g.in_dtype(g.nan_to_zero(made) if m.is_guarded else made, result_dtype(m))


def emit_ort_attention(g: Graph, m: AttentionCore) -> Tensor:
    """Write an op of ONNX Runtime, between the Transposes and Reshapes that its layout requires.

    It is GroupQueryAttention if scores are capped or have sinks, otherwise MultiHeadAttention.
    """
    dtype, heads, scale = core_dtype(m), m.heads, total_scale(m)
    bias = broadcast_bias(
        g, m, additive_bias(g, m, dtype), keys=m.kt.shape[-1], count=lambda: g.size_of(m.kt, m.kt.rank - 1)
    )
    is_grouped = m.cap is not None or m.sink is not None
    require(m.q.rank == 4 or not is_grouped, "MultiHeadAttention supports neither capped scores nor sinks")
    q, k, v = packed_qkv(g, m, dtype) if m.q.rank == 4 else batched_qkv(g, m, dtype)
    if is_grouped:
        require(m.columns == m.width, "GroupQueryAttention needs keys and values of the same size")
        require_equal_lengths(m.q.shape[2], m.kt.shape[3], m.columns)
        made = emit_group_query_attention(
            g, (q, k, v), bias, heads=heads, groups=heads, scale=scale, **softcap_and_sink(g, m, heads)
        )[0]
    else:
        made = g.ms_multi_head_attention(q, k, v, attention_bias=bias, num_heads=heads, scale=scale)
    made = with_nan_guard(g, m, made)
    return g.split_heads(made, heads, m.width) if m.q.rank == 4 else with_window_axes(g, m, made)
