"""GroupQueryAttention of ONNX Runtime in numpy, as computed by its CPU kernel.

Sources: the schema in ONNX Runtime 1.32 (graph/contrib_ops/bert_defs.cc), and contrib_ops/cpu/bert for details that it
leaves open: the past of each sequence, the first position, the order of capping and masking scores.
B: batch, S: query rows, N and K: heads of queries and of keys, H: head size, P: rows of the past, T: rows of the
result.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from surgeon.runtime.kernels.erf import Array
from surgeon.runtime.kernels.ort_attention import attended, heads_of, rotated, rows_of


def group_query_attention(
    query: Array,
    key: Array | None = None,
    value: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    seqlens_k: Array | None = None,
    total_sequence_length: Array | None = None,
    cos_cache: Array | None = None,
    sin_cache: Array | None = None,
    position_ids: Array | None = None,
    attention_bias: Array | None = None,
    head_sink: Array | None = None,
    *unknown: Array | None,
    num_heads: int,
    kv_num_heads: int,
    scale: float = 0.0,
    softcap: float = 0.0,
    causal: int = 1,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    local_window_size: int = -1,
    smooth_softmax: int = 0,
    outputs: int = 1,
    **_: Any,
) -> tuple[Array, ...]:
    """GroupQueryAttention.

    query: [B, S, N·H], or [B, S, (N + 2K)·H] with keys and values.  key, value: [B, S, K·H].  past_key, past_value:
    [B, K, P, H], the earlier keys of each sequence, or a buffer for all keys.  seqlens_k: [B], the number of keys of
    each sequence minus one.  total_sequence_length: the largest number of keys; it equals S in a prompt, which has no
    past.  cos_cache, sin_cache: [positions, half of the rotated part of a head].  position_ids: [B, S]; for a prompt,
    the kernel reads only the first one and counts on from it.  attention_bias: [B or 1, N or 1, S, T].  head_sink: [N].

    Returns [B, S, N·H], and the keys and values with the past, [B, K, T, H].  The keys of a shorter sequence are
    followed by zeros, those of a prompt by its padding.  Raises NotImplementedError for other inputs and outputs, and
    ValueError for lengths that do not fit.
    """
    if any(item is not None for item in unknown) or outputs > 3:
        raise NotImplementedError("no formula for GroupQueryAttention with quantised keys or scores as an output")
    if key is None or value is None:
        size = query.shape[-1] // (num_heads + 2 * kv_num_heads)
        query, key, value = np.split(query, np.cumsum([num_heads * size, kv_num_heads * size]), axis=-1)
    q, k, v = heads_of(query, num_heads), heads_of(key, kv_num_heads), heads_of(value, kv_num_heads)
    batch, rows = q.shape[0], q.shape[2]
    before = 0 if past_key is None else past_key.shape[2]
    most = before + rows if total_sequence_length is None else int(np.ravel(total_sequence_length)[0])
    totals = np.full(batch, most) if seqlens_k is None else np.ravel(seqlens_k).astype(np.int64) + 1
    pasts = np.zeros(batch, np.int64) if rows == most else totals - rows
    if (pasts < 0).any() or totals.max() > most:
        raise ValueError(f"{rows} rows and {totals.tolist()} keys are neither a prompt of {most} nor after a past")
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise ValueError("GroupQueryAttention with rotary embeddings needs cos_cache and sin_cache")
        at = _positions(pasts, rows, position_ids, is_prompt=rows == most)
        cos, sin = (cache[at][:, None].astype(q.dtype) for cache in (cos_cache, sin_cache))
        q, k = (rotated(one, cos, sin, interleaved=rotary_interleaved) for one in (q, k))
    present = [_behind(past, new, pasts, max(before, most)) for past, new in ((past_key, k), (past_value, v))]
    sinks = np.zeros(num_heads, q.dtype) if smooth_softmax and head_sink is None else head_sink
    made = np.empty((batch, num_heads, rows, v.shape[3]), q.dtype)
    for place, (past, total) in enumerate(zip(pasts.tolist(), totals.tolist(), strict=True)):
        one = slice(place, place + 1)
        keys, values = (np.repeat(part[one, :, :total], num_heads // kv_num_heads, axis=1) for part in present)
        bias = None if attention_bias is None else attention_bias[one if len(attention_bias) > 1 else slice(0, 1)]
        made[one] = attended(
            q[one],
            keys,
            values,
            added=None if bias is None else bias[..., :total],
            shown=_shown(rows, past, total, causal=causal, window=local_window_size),
            scale=scale or q.shape[3] ** -0.5,
            cap=softcap,
            sinks=sinks,
        )
    return rows_of(made), *present


def _positions(pasts: Array, rows: int, given: Array | None, *, is_prompt: bool) -> Array:
    """The position of each row, [B, S]."""
    if given is None:
        return pasts[:, None] + np.arange(rows)
    if is_prompt:
        return np.broadcast_to(int(given.flat[0]) + np.arange(rows), (len(pasts), rows))
    return given


def _behind(past: Array | None, new: Array, pasts: Array, size: int) -> Array:
    """The past and the new keys of each sequence, in as many rows as the longest needs or the buffer has."""
    made = np.zeros((*new.shape[:2], size, new.shape[3]), new.dtype)
    for place, count in enumerate(pasts.tolist()):
        if past is not None:
            made[place, :, :count] = past[place, :, :count]
        made[place, :, count : count + new.shape[2]] = new[place]
    return made


def _shown(rows: int, past: int, total: int, *, causal: int, window: int) -> Array | None:
    """A mask [S, T] of the keys that each row sees; None if it sees all."""
    own, keys = past + np.arange(rows)[:, None], np.arange(total)[None, :]
    shown = keys <= own if causal else None
    if window > 0:
        near = keys > own - window
        shown = near if shown is None else shown & near
        if not shown.any(axis=1).all():
            raise NotImplementedError("no formula for GroupQueryAttention with a padding row whose window is empty")
    return shown


GROUPED_QUERIES: dict[tuple[str, str], Callable[..., Any]] = {
    ("com.microsoft", "GroupQueryAttention"): group_query_attention,
}
"""The formula by domain and name of the operator."""
