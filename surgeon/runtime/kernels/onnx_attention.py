"""Attention whose heads share keys and values, for versions of onnx whose ReferenceEvaluator computes it wrongly.

With q query heads and k key heads, query head h reads key head h // (q / k) (onnx.defs, Attention: key heads are
repeated, as in ONNX Runtime).  Because of quirks.EVALUATOR_SHARED_HEADS, keys and values are repeated before the
evaluator sees them.
"""

from typing import Any

import numpy as np
import onnx

from surgeon.runtime.kernels.erf import Array
from surgeon.runtime.quirks import EVALUATOR_SHARED_HEADS


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    lengths: Array | None = None,
    **attributes: Any,
) -> tuple[Array, ...]:
    """onnx's own Attention, on keys and values whose heads are repeated for the query heads that share them."""
    from onnx.reference.ops.op_attention import _compute_attention

    flat = q.ndim == 3
    readers, heads = (attributes["q_num_heads"], attributes["kv_num_heads"]) if flat else (q.shape[1], k.shape[1])
    times = readers // heads
    if times > 1:
        k, v = (_repeated(one, heads, times) for one in (k, v))
        past_key, past_value = (
            None if past is None else _repeated(past, heads, times) for past in (past_key, past_value)
        )
        attributes["kv_num_heads"] = readers
    y, key, value, scores = _compute_attention(
        q, k, v, attn_mask=mask, past_key=past_key, past_value=past_value, nonpad_kv_seqlen=lengths, **attributes
    )
    return y, key[:, ::times], value[:, ::times], scores


def _repeated(one: Array, heads: int, times: int) -> Array:
    """Repeat each head of [b, heads, s, d] or [b, s, heads·d]."""
    if one.ndim == 4:
        return np.repeat(one, times, axis=1)
    apart = one.reshape(*one.shape[:2], heads, one.shape[2] // heads)
    return np.repeat(apart, times, axis=2).reshape(*one.shape[:2], one.shape[2] * times)


SHARED_HEADS = {("", "Attention"): attention} if EVALUATOR_SHARED_HEADS.affects(onnx.__version__) else {}
"""The formula by domain and name of the operator; empty if the installed onnx does not need it."""
