"""ONNX Runtime's attention operators in numpy, according to their schemas and to the CPU provider's kernels.

Sources: the schemas of `com.microsoft` in ONNX Runtime 1.32 (graph/contrib_ops/bert_defs.cc).  contrib_ops/cpu/bert has
details that they leave open: how causal attention hides the future, and how keys of a past are counted.
B: batch, S: query rows, T: key rows with the past, N: heads, H: head size.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from surgeon.runtime.kernels.erf import Array

_HIDDEN = -10000.0  # default of mask_filter_value, which is added to hidden scores


def heads_of(x: Array, number: int) -> Array:
    """[B, N, S, H] from rows [B, S, N·H]; a tensor with four axes is returned unchanged."""
    if x.ndim == 4:
        return x
    return x.reshape(*x.shape[:2], number, x.shape[2] // number if number else 0).transpose(0, 2, 1, 3)


def rows_of(x: Array) -> Array:
    """[B, S, N·H] from heads [B, N, S, H]."""
    batch, heads, rows, columns = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, rows, heads * columns)


def _added(bias: Array | None, mask: Array | None, columns: int, filter_value: float, dtype: Any) -> Array | None:
    """The term to add to scores: a bias, plus a number for hidden keys.  mask: [B, T], or the number of keys [B]."""
    if mask is None:
        return bias
    if mask.ndim == 1:
        mask = np.arange(columns) < mask[:, None]
    if mask.ndim != 2 or mask.shape[1] != columns:
        raise NotImplementedError(f"no formula for a key mask of shape {list(mask.shape)}")
    hidden = np.where(mask[:, None, None, :] != 0, 0.0, filter_value).astype(dtype)
    return hidden if bias is None else np.asarray(bias + hidden)


def attended(
    q: Array,
    k: Array,
    v: Array,
    added: Array | None,
    shown: Array | None,
    *,
    scale: float,
    cap: float = 0.0,
    sinks: Array | None = None,
) -> Array:
    """softmax(cap(scale · q·kᵀ) + added)·v of heads.  shown: visible scores.  sinks: an extra score for each head."""
    scores = (q @ k.swapaxes(-1, -2)) * q.dtype.type(scale)
    if cap:
        scores = cap * np.tanh(scores / cap)
    if added is not None:
        scores = scores + added
    if shown is not None:
        scores = np.where(shown, scores, -np.inf)
    if sinks is not None:
        one = np.broadcast_to(sinks.astype(scores.dtype).reshape(1, -1, 1, 1), (*scores.shape[:3], 1))
        scores = np.concatenate([scores, one], axis=-1)
    if not scores.shape[-1]:
        return np.zeros((*scores.shape[:3], v.shape[-1]), v.dtype)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights[..., : v.shape[2]] @ v)


def _up_to_own(rows: int, columns: int) -> Array:
    """A causal mask [rows, columns]; the rows are the last ones of the keys."""
    return np.asarray(np.arange(columns)[None, :] <= np.arange(rows)[:, None] + columns - rows)


def _behind(past: Array | None, new: Array) -> Array:
    return new if past is None else np.concatenate([past, new], axis=2)


def _multi_head_attention(
    query: Array,
    key: Array | None = None,
    value: Array | None = None,
    bias: Array | None = None,
    key_padding_mask: Array | None = None,
    attention_bias: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    *unknown: Array | None,
    num_heads: int,
    mask_filter_value: float = _HIDDEN,
    scale: float = 0.0,
    unidirectional: int = 0,
    outputs: int = 1,
) -> tuple[Array, ...]:
    """MultiHeadAttention.

    query: [B, S, N·H], or [B, S, N, 3, H] with keys and values.  key, value: [B, L, N·H], [B, N, L, H], or together
    [B, L, N, 2, H].  bias: of all three.  Returns [B, S, N·H], and the keys and values after the past [B, N, P, H].
    """
    if any(item is not None for item in unknown) or outputs > 3:
        raise NotImplementedError("no formula for MultiHeadAttention with a past buffer or scores as an output")
    parts = [query, key, value]
    if query.ndim == 5:
        parts = [query[:, :, :, place].reshape(*query.shape[:2], -1) for place in range(3)]
    elif key is not None and key.ndim == 5:
        parts[1:] = [key[:, :, :, place].reshape(*key.shape[:2], -1) for place in range(2)]
    if bias is not None:
        if any(part is None or part.ndim == 4 for part in parts):
            raise NotImplementedError("no formula for MultiHeadAttention with a bias and keys that have 4 axes")
        at = np.cumsum([part.shape[2] for part in parts if part is not None])[:-1]
        parts = [part + one for part, one in zip(parts, np.split(bias, at), strict=True)]
    q, k, v = (heads_of(np.asarray(part), num_heads) for part in parts)
    k, v = _behind(past_key, k), _behind(past_value, v)
    added = _added(attention_bias, key_padding_mask, k.shape[2], filter_value=mask_filter_value, dtype=q.dtype)
    shown = _up_to_own(q.shape[2], k.shape[2]) if unidirectional else None
    return rows_of(attended(q, k, v, added=added, shown=shown, scale=scale or q.shape[3] ** -0.5)), k, v


def _attention(
    x: Array,
    weights: Array,
    bias: Array | None = None,
    mask: Array | None = None,
    past: Array | None = None,
    attention_bias: Array | None = None,
    *unknown: Array | None,
    num_heads: int,
    qkv_hidden_sizes: list[int] | None = None,
    mask_filter_value: float = _HIDDEN,
    scale: float = 0.0,
    unidirectional: int = 0,
    do_rotary: int = 0,
    **_: Any,
) -> tuple[Array, ...]:
    """Attention with one product for queries, keys and values.

    x: [B, S, D].  weights: [D, sizes of all three].  past: [2, B, N, P, H].  Returns [B, S, N·H], and the keys and
    values with the past, [2, B, N, T, H].
    """
    if do_rotary or any(item is not None for item in unknown):
        raise NotImplementedError("no formula for Attention with rotary embeddings or a past buffer")
    made = x @ weights
    made = made if bias is None else made + bias
    sizes = qkv_hidden_sizes or [made.shape[-1] // 3] * 3
    q, k, v = (heads_of(part, num_heads) for part in np.split(made, np.cumsum(sizes)[:-1], axis=-1))
    if past is not None:
        k, v = _behind(past[0], k), _behind(past[1], v)
    added = _added(attention_bias, mask, k.shape[2], filter_value=mask_filter_value, dtype=q.dtype)
    shown = _up_to_own(q.shape[2], k.shape[2]) if unidirectional else None
    y = rows_of(attended(q, k, v, added=added, shown=shown, scale=scale or q.shape[3] ** -0.5))
    return (y, np.stack([k, v])) if k.shape == v.shape else (y,)


def _rotary_embedding(
    x: Array,
    position_ids: Array,
    cos_cache: Array,
    sin_cache: Array,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
    is_packed_batching: int = 0,
) -> Array:
    """RotaryEmbedding (Su et al., arXiv:2104.09864).

    x: [B, S, N·H] or [B, N, S, H].  position_ids: [B, S], or the position of the first row, [1].  cos_cache, sin_cache:
    [positions, half of the rotated part of a head].
    """
    if is_packed_batching or scale != 1.0:
        raise NotImplementedError("no formula for RotaryEmbedding with packed sequences or a scale")
    turned = rotary_embedding_dim or 2 * cos_cache.shape[1]
    number = num_heads if rotary_embedding_dim and x.ndim == 3 else x.shape[-1] // turned
    heads = heads_of(x, number)
    rows = heads.shape[2]
    at = position_ids if position_ids.ndim == 2 else int(position_ids.ravel()[0]) + np.arange(rows)[None, :]
    cos, sin = (cache[at][:, None].astype(x.dtype) for cache in (cos_cache, sin_cache))
    made = rotated(heads, cos, sin, interleaved=interleaved)
    return made if x.ndim == 4 else rows_of(made)


def rotated(heads: Array, cos: Array, sin: Array, *, interleaved: int = 0) -> Array:
    """Rotate the first numbers of each head in pairs: neighbours if interleaved, else one of each half.

    heads: [B, N, S, H].  cos, sin: [B, 1, S, half of the rotated part].
    """
    turned = 2 * cos.shape[-1]
    part, rest = heads[..., :turned], heads[..., turned:]
    one, two = (part[..., ::2], part[..., 1::2]) if interleaved else np.split(part, 2, axis=-1)
    first, second = one * cos - two * sin, two * cos + one * sin
    made = np.stack([first, second], -1).reshape(part.shape) if interleaved else np.concatenate([first, second], -1)
    return np.concatenate([made, rest], axis=-1)


ATTENTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("com.microsoft", "Attention"): _attention,
    ("com.microsoft", "MultiHeadAttention"): _multi_head_attention,
    ("com.microsoft", "RotaryEmbedding"): _rotary_embedding,
}
"""Formulas by domain and name of the operator."""
