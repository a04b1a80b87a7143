"""GroupQueryAttention in primitives: a past, sequences of different lengths, rotary embeddings, windows, sinks.

It follows the CPU kernel of ONNX Runtime (contrib_ops/cpu/bert/gqa_attention_base.h and group_query_attention.cc).
`seqlens_k` is the index of the last valid key of each sequence, and the new keys are the last valid keys.  The first
call passes all keys at once.  It has no past, and ignores a past that it is given.
"""

from math import sqrt
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require
from ..rotary._fused_rotary import turned_heads
from ._fused_grouped_query import Grouped
from ._grouped_query_keys import counted, places_of, put_behind

SAID = {
    *("num_heads", "kv_num_heads", "scale", "softcap", "causal", "local_window_size", "smooth_softmax"),
    *("do_rotary", "rotary_interleaved"),
}
OFF: dict[str, tuple[Any, ...]] = {
    "qk_output": (0,),
    "kv_cache_bit_width": (0,),
    "sliding_window_cache": (0,),
    "k_quant_type": ("NONE", b"NONE"),
    "v_quant_type": ("NONE", b"NONE"),
}
IDLE = {"qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon"}  # attributes of absent norms


def grouped_in_parts(g: Graph, m: Grouped) -> list[Tensor]:
    """Write the node in primitives, half precision in float32."""
    more = {name for name in set(m.attributes) - SAID - IDLE if m.attributes[name] not in OFF.get(name, ())}
    require(not more, f"unsupported attributes: {', '.join(sorted(more))}")
    require(m.q.dtype is not None, "the dtype of the queries is unknown")
    heads, groups = m.attributes["num_heads"], m.attributes["kv_num_heads"]
    rows = g.size_of(m.q, 1)
    keys = counted(g, m, rows)
    parts, size = heads_of(g, m, heads, groups)
    at = g.add(g.range(np.int64(0), g.squeeze(rows, [0]), np.int64(1)), keys.before)  # [batch, rows]
    if m.setting("do_rotary", 0):
        require(
            m.cos is not None and m.sin is not None, "do_rotary is 1, but the tables of cosines and sines are missing"
        )
        parts[:2] = rotated(g, m, parts[:2], places=at if m.places is None else places_of(g, m, at, keys), size=size)
    behind = [
        put_behind(g, m, x, past=past, keys=keys) for x, past in zip(parts[1:], (m.past_key, m.past_value), strict=True)
    ]
    total = g.reshape(g.cast(m.total, to="int64"), [1])
    used = behind if keys.is_whole else [g.slice(x, [0], total, [2]) for x in behind]
    made = attended(g, m, [parts[0], *used], at=g.unsqueeze(at, [1, 3]), total=total, size=size)
    return [made, *behind][: m.output_count]


def heads_of(g: Graph, m: Grouped, heads: int, groups: int) -> tuple[list[Tensor], int]:
    """Return queries, keys and values as [batch, heads, rows, columns], and the number of columns."""
    width = m.q.shape and m.q.shape[2]
    require(isinstance(width, int), "the size of the queries is unknown")
    if m.k is None or m.v is None:
        require(m.k is None and m.v is None, "it has keys without values, or values without keys")
        size = width // (heads + 2 * groups)
        widths = [heads * size, groups * size, groups * size]
        given = list(g.split(m.q, widths, axis=-1, outputs=3))
    else:
        require(m.k.rank == m.v.rank == 3, "keys and values must have the axes batch, row, column")
        size, given = width // heads, [m.q, m.k, m.v]
    return [g.split_heads(x, own, size) for x, own in zip(given, (heads, groups, groups), strict=True)], size


def rotated(g: Graph, m: Grouped, parts: list[Tensor], places: Any, size: int) -> list[Tensor]:
    """Rotate queries and new keys by the angles of their positions."""
    half: Any = m.cos.shape[-1] if m.cos is not None and m.cos.shape else None
    require(isinstance(half, int), "the size of the tables is unknown")
    rows = [g.unsqueeze(g.gather(table, places, axis=0), [1]) for table in (m.cos, m.sin)]
    pairs = bool(m.setting("rotary_interleaved", 0))
    return [turned_heads(g, x, rows, size=size, part=2 * half, is_pairs=pairs) for x in parts]


def attended(g: Graph, m: Grouped, parts: list[Tensor], at: Tensor, total: Tensor, size: int) -> Tensor:
    """Return softmax(cap(scale · q·kᵀ) + bias)·v over the keys that each row sees. at: rows, [batch, 1, rows, 1]."""
    heads, groups = m.attributes["num_heads"], m.attributes["kv_num_heads"]
    dtype = np.dtype(np.float32) if str(m.q.dtype) in ("float16", "bfloat16") else m.q.dtype
    q, k, v = (g.in_dtype(x, dtype) for x in parts)
    if heads != groups:
        k, v = (g.repeated_heads(x, groups, heads // groups, size) for x in (k, v))
    scale = m.setting("scale", 0.0) or size**-0.5
    require(scale > 0, "the scale of the scores is negative, so it has no square root")
    scores = g.matmul(g.mul(q, sqrt(scale)), g.transpose(g.mul(k, sqrt(scale)), perm=[0, 1, 3, 2]))
    cap = m.setting("softcap", 0.0)
    scores = g.mul(g.tanh(g.div(scores, cap)), cap) if cap else scores
    scores = scores if m.bias is None else g.add(scores, g.in_dtype(m.bias, dtype))
    place = g.range(np.int64(0), g.squeeze(total, [0]), np.int64(1))
    scores = g.where(seen(g, m, place, at), scores, np.array(-np.inf, dtype))
    made = g.matmul(weights_of(g, m, scores, dtype=dtype, heads=heads), v)
    return g.in_dtype(g.joined_heads(made, heads * size), m.q.dtype)


def seen(g: Graph, m: Grouped, place: Any, at: Tensor) -> Tensor:
    """Return the keys that a row sees: the keys up to the row, and only the last of them if there is a window."""
    window, is_causal = m.setting("local_window_size", -1), m.setting("causal", 1)
    require(is_causal or window < 1, "a window needs causal attention, because it counts keys back from the row")
    last = at if is_causal else g.reduce_max(at, [2], keepdims=1)
    shown = g.less(place, g.add(last, np.ones((), np.int64)))
    return g.and_(shown, g.less(g.sub(at, np.array(window, np.int64)), place)) if window > 0 else shown


def weights_of(g: Graph, m: Grouped, scores: Tensor, dtype: Any, heads: int) -> Tensor:
    """Return the softmax of the scores.  A sink is one more score of each row, and its weight is dropped."""
    if m.sink is None and m.setting("smooth_softmax", -1) != 1:
        return g.softmax(scores, axis=-1)
    sinks: Any = np.zeros((1, heads, 1, 1), dtype)
    if m.sink is not None:
        sinks = g.reshape(g.in_dtype(m.sink, dtype), [1, heads, 1, 1])
    column = g.spread(sinks, [g.size_of(scores, 0), 1, g.size_of(scores, 2), 1])
    whole = g.softmax(g.concat(scores, column, axis=-1), axis=-1)
    return g.slice(whole, [0], [-1], [-1])
