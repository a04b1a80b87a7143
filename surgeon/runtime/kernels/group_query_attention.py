"""GroupQueryAttention of ONNX Runtime in numpy, as computed by its CPU kernel.

Sources: the schema in ONNX Runtime 1.32 (graph/contrib_ops/bert_defs.cc), and contrib_ops/cpu/bert for details that it
leaves open: the past of each sequence, the first position, the order of capping and masking scores.
B: batch, S: query rows, N and K: heads of queries and of keys, H: head size, P: rows of the past, T: rows of the
result.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

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
    *more: Array | None,
    num_heads: int,
    kv_num_heads: int,
    scale: float = 0.0,
    softcap: float = 0.0,
    causal: int = 1,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    local_window_size: int = -1,
    smooth_softmax: int = 0,
    sliding_window_cache: int = 0,
    outputs: int = 1,
    **_: Any,
) -> tuple[Array, ...]:
    """GroupQueryAttention.

    query: [B, S, N·H], or [B, S, (N + 2K)·H] with keys and values.  key, value: [B, S, K·H].  past_key, past_value:
    [B, K, P, H], the earlier keys of each sequence, or a buffer for all keys.  seqlens_k: [B], the number of keys of
    each sequence minus one.  total_sequence_length: the largest number of keys; it equals S in a prompt, which has no
    past.  cos_cache, sin_cache: [positions, half of the rotated part of a head].  position_ids: [B, S]; for a prompt,
    the kernel reads only the first one and counts on from it.  attention_bias: [B or 1, N or 1, S, T].  head_sink: [N].
    more: scales of quantised keys, weights of norms, and query_seqlens [B], the number of new rows of each sequence.

    Returns [B, S, N·H], and the keys and values with the past, [B, K, T, H].  The keys of a shorter sequence are
    followed by zeros, those of a prompt by its padding.  Raises NotImplementedError for other inputs and outputs, and
    for padding rows that the operator does not specify; ValueError for sizes and lengths that the kernel rejects.
    """
    rest = (*more, *[None] * 5)
    if any(item is not None for item in (*rest[:4], *rest[5:])) or outputs > 3 or sliding_window_cache:
        raise _unknown("norms of heads, quantised keys, buffers of a window, or scores as an output")
    if local_window_size == 0:
        raise _unknown("a window without keys")
    if key is None or value is None:
        size = query.shape[-1] // (num_heads + 2 * kv_num_heads)
        query, key, value = np.split(query, np.cumsum([num_heads * size, kv_num_heads * size]), axis=-1)
    q, k, v = heads_of(query, num_heads), heads_of(key, kv_num_heads), heads_of(value, kv_num_heads)
    batch, rows, size = q.shape[0], q.shape[2], q.shape[3]
    _require(batch > 0 and rows > 0, f"{batch} sequences of {rows} rows")
    _require(size % 8 == 0, f"heads of size {size}, which is not a multiple of 8")
    _require(causal or (local_window_size < 0 and rest[4] is None), "a window or query_seqlens that is not causal")
    held = None if past_key is None else past_key.shape[2]
    at = _lengths(batch, rows, held, last=seqlens_k, most=total_sequence_length, new=rest[4])
    wide = (1, batch), (1, num_heads), (rows,), (at.most,)
    bias = () if attention_bias is None else attention_bias.shape
    _require(all(one in sizes for one, sizes in zip(bias, wide, strict=False)), f"a bias of shape {list(bias)}")
    if do_rotary:
        _require(size % 16 == 0, f"rotated heads of size {size}")
        cos, sin = (_rows_at(cache, at, k, position_ids) for cache in (cos_cache, sin_cache))
        q, k = (rotated(one, cos, sin, interleaved=rotary_interleaved) for one in (q, k))
    present = [_behind(past, new, at) for past, new in ((past_key, k), (past_value, v))]
    sinks = np.zeros(num_heads, q.dtype) if smooth_softmax and head_sink is None else head_sink
    made = np.empty((batch, num_heads, rows, v.shape[3]), q.dtype)
    for index, (past, total) in enumerate(zip(at.pasts.tolist(), at.totals.tolist(), strict=True)):
        one = slice(index, index + 1)
        keys, values = (np.repeat(part[one, :, :total], num_heads // kv_num_heads, axis=1) for part in present)
        added = None if attention_bias is None else attention_bias[one if len(attention_bias) > 1 else slice(0, 1)]
        made[one] = attended(
            q[one],
            keys,
            values,
            added=None if added is None else added[..., :total],
            shown=_shown(rows, past, total, window=local_window_size) if causal else None,
            scale=scale or size**-0.5,
            cap=softcap,
            sinks=sinks,
        )
    return rows_of(made), *present


def _unknown(what: str) -> NotImplementedError:
    return NotImplementedError(f"no formula for GroupQueryAttention with {what}")


def _require(holds: object, what: str) -> None:
    """Raise ValueError for inputs that the kernel rejects."""
    if not holds:
        raise ValueError(f"GroupQueryAttention does not take {what}")


class _Lengths(NamedTuple):
    """Numbers of keys."""

    pasts: Array
    """The keys before the new rows, [B]."""
    totals: Array
    """All keys, [B]."""
    most: int
    """The keys of the longest sequence."""
    size: int
    """The rows of the result."""
    is_prompt: bool
    """Whether all keys are new."""


def _lengths(
    batch: int, rows: int, held: int | None, *, last: Array | None, most: Array | None, new: Array | None
) -> _Lengths:
    """held: the rows of the past, if there is one.  last: the index of the last key [B].  new: the new rows [B]."""
    before = held or 0
    longest = before + rows if most is None else int(np.ravel(most)[0])
    totals = np.full(batch, longest) if last is None else np.ravel(last).astype(np.int64) + 1
    is_prompt = rows == longest and new is None
    pasts = np.zeros(batch, np.int64) if is_prompt else totals - rows
    if new is not None and (np.ravel(new) != rows).any():
        raise _unknown("padding after the new rows of a sequence")
    given = f"{rows} rows, {before} rows of a past and {totals.tolist()} keys of at most {longest}"
    _require(len(totals) == batch and (totals > 0).all() and (totals <= longest).all(), given)
    _require((pasts >= 0).all() and (pasts <= before).all(), given)
    _require(new is None or (held is not None and longest >= rows), f"query_seqlens with {given}")
    _require(is_prompt or rows == 1 or batch == 1 or new is not None, f"several sequences of {given}")
    _require(new is not None or longest <= before or longest == before + rows, given)
    return _Lengths(pasts, totals, most=longest, size=max(before, longest), is_prompt=is_prompt)


def _rows_at(cache: Array | None, at: _Lengths, heads: Array, given: Array | None) -> Array:
    """The rows of a table at the position of each row of the heads, [B, 1, S, half of the rotated part].

    given: position_ids.
    """
    if cache is None:
        raise ValueError("GroupQueryAttention with rotary embeddings needs cos_cache and sin_cache")
    count, half = cache.shape
    rows, size = heads.shape[2:]
    _require(half % 8 == 0 and half <= size // 2, f"{half} angles for heads of size {size}")
    places = at.pasts[:, None] + np.arange(rows) if given is None else given
    if given is not None and at.is_prompt:
        places = np.broadcast_to(int(given.flat[0]) + np.arange(rows), given.shape)
    _require(at.most <= count and (places >= 0).all() and (places < count).all(), f"positions beyond {count} angles")
    return np.asarray(cache[places][:, None].astype(heads.dtype))


def _behind(past: Array | None, new: Array, at: _Lengths) -> Array:
    """The past and the new keys of each sequence, in as many rows as the longest needs or the buffer has."""
    made = np.zeros((*new.shape[:2], at.size, new.shape[3]), new.dtype)
    for index, count in enumerate(at.pasts.tolist()):
        if past is not None:
            made[index, :, :count] = past[index, :, :count]
        made[index, :, count : count + new.shape[2]] = new[index]
    return made


def _shown(rows: int, past: int, total: int, *, window: int) -> Array:
    """A mask [S, T] of the keys that each row sees."""
    own, keys = past + np.arange(rows)[:, None], np.arange(total)[None, :]
    shown = keys <= own
    if window > 0:
        if past + rows > max(total, window):  # the kernel reads scores that it did not compute
            raise _unknown("a padding row whose window ends after the keys")
        shown &= keys > own - window
    return np.asarray(shown)


GROUPED_QUERIES: dict[tuple[str, str], Callable[..., Any]] = {
    ("com.microsoft", "GroupQueryAttention"): group_query_attention,
}
"""The formula by domain and name of the operator."""
