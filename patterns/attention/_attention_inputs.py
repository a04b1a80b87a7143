"""The inputs and settings of an attention that is one node, for any op."""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from surgeon import Graph, Tensor, require
from ._fused_attention import FusedAttention
from ._fused_attention_masks import padding_bias, require_known_lengths

HANDLED_ATTRIBUTES = {
    "num_heads",
    "kv_num_heads",
    "q_num_heads",
    "scale",
    "softcap",
    "unidirectional",
    "is_causal",
    "causal",
}
IGNORED_ATTRIBUTES = {
    "mask_filter_value",
    "qk_matmul_output_mode",
    "softmax_precision",
}  # they concern absent inputs, or are hints
REQUIRED_VALUES = {
    "do_rotary": 0,
    "rotary_interleaved": 0,
    "local_window_size": -1,
    "smooth_softmax": -1,
    "sliding_window_cache": 0,
}
SHORT_MASK = "its mask may have fewer columns than there are keys, and a shorter mask hides the remaining keys"


class AttentionSpec(NamedTuple):
    """The computation of an attention node, with a field for each of its inputs and settings."""

    q: Tensor
    """Queries, [batch, heads, rows, head_size]."""
    k: Tensor
    """Keys, [batch, kv_heads, columns, head_size]."""
    v: Tensor
    """Values, [batch, kv_heads, columns, v_head_size]."""
    heads: int
    """Heads of the queries."""
    kv_heads: int
    """Heads of the keys and values."""
    head_size: int
    """Elements of a query or key."""
    v_head_size: int
    """Elements of a value."""
    bias: Tensor | None
    """Added to the scores, or a boolean mask of the scores that count."""
    is_condition: bool
    """Whether `bias` is a boolean mask."""
    scale: float
    """Factor of the scores."""
    cap: float
    """Bound of the scores, by tanh.  0 means no bound."""
    is_causal: bool
    """Whether a row sees only the columns up to its own."""
    is_packed: bool
    """Whether the output has its heads joined, [batch, rows, heads * v_head_size]."""
    dtype: Any
    """NumPy dtype in which to compute."""


def attention_spec(g: Graph, m: FusedAttention, is_wide: bool = False) -> AttentionSpec:
    """Return the computation of a node.

    is_wide: compute half precision in float32, like the kernels of ONNX Runtime.
    """
    numbers, given, is_standard = m.attributes, m.q, m.onnx_output is not None
    more = {
        name
        for name in set(numbers) - HANDLED_ATTRIBUTES - IGNORED_ATTRIBUTES
        if name not in REQUIRED_VALUES or numbers[name] != REQUIRED_VALUES[name]
    }
    require(not more, f"unsupported attributes: {', '.join(sorted(more))}")
    require(given.dtype is not None and given.shape is not None, "the dtype or the shape of its input is unknown")
    dtype = np.dtype(np.float32) if is_wide and given.dtype == np.float16 else given.dtype
    is_four = is_standard and given.rank == 4
    heads: Any = given.shape[1] if is_four else numbers.get("num_heads", numbers.get("q_num_heads"))
    groups: Any = m.k.shape[1] if is_four else numbers.get("kv_num_heads", heads)
    require(isinstance(heads, int) and isinstance(groups, int), "the number of heads is unknown")
    parts = (
        split_heads_of(g, m, heads, groups=groups, dtype=dtype)
        if m.weights is None
        else projected_heads(g, m, heads, dtype)
    )
    (q, size), (k, _), (v, columns) = parts
    if m.past_key is not None:
        k, v = (g.concat(g.in_dtype(past, dtype), x, axis=2) for past, x in ((m.past_key, k), (m.past_value, v)))
    scale = numbers.get("scale", 0.0)
    if "scale" not in numbers or (scale == 0 and not is_standard):  # ONNX Runtime's ops treat 0 as the default
        scale = size**-0.5
    bias, is_condition = m.bias, m.bias is not None and m.bias.dtype == np.bool_
    if bias is not None:
        require(not is_standard or covers_all_keys(bias, m.k), SHORT_MASK)
        bias = bias if is_condition else g.in_dtype(bias, dtype)
    padding = padding_bias(g, m, dtype)
    if padding is not None:
        bias = padding if bias is None else g.add(bias, padding)
    cap = numbers.get("softcap", 0.0)
    return AttentionSpec(
        q=q,
        k=k,
        v=v,
        heads=heads,
        kv_heads=groups,
        head_size=size,
        v_head_size=columns,
        bias=bias,
        is_condition=is_condition,
        scale=scale,
        cap=cap,
        is_causal=m.is_causal,
        is_packed=not is_four,
        dtype=dtype,
    )


def covers_all_keys(mask: Tensor, k: Tensor) -> bool:
    """Return whether a mask of Attention (ONNX) has a column for each key.  A shorter mask hides the remaining keys."""
    return mask.shape is not None and k.shape is not None and bool(mask.shape) and mask.shape[-1] == k.shape[-2]


def projected_heads(g: Graph, m: FusedAttention, heads: int, dtype: Any) -> list[tuple[Tensor, int]]:
    """Return the queries, keys and values of Attention (ONNX Runtime) as heads, with their numbers of columns."""
    width = m.weights.shape and m.weights.shape[1]
    require(isinstance(width, int), "the shape of the weights is unknown")
    size = width // 3
    packed, weights, added = (g.in_dtype(x, dtype) for x in (m.q, m.weights, m.projection_bias))
    parts = g.split(g.add(g.matmul(packed, weights), added), [size, size, size], axis=-1, outputs=3)
    return [(g.split_heads(x, heads, size // heads), size // heads) for x in parts]


def packed(g: Graph, m: FusedAttention, heads: int, dtype: Any) -> list[tuple[Tensor, int]]:
    """Split packed inputs of MultiHeadAttention: [batch, rows, heads, 3, columns], or 2 for only keys and values."""
    whole = m.q if m.k is None else m.k
    count = 3 if m.k is None else 2
    require(m.v is None and m.qkv_bias is None and whole.rank == 5, "queries, keys or values are packed in another way")
    size = whole.shape[4]
    require(isinstance(size, int), "the size of the heads is unknown")
    apart = g.split(g.in_dtype(whole, dtype), [1] * count, axis=3, outputs=count)
    parts = [g.heads_first(g.squeeze(x, [3])) for x in apart]
    own = [] if m.k is None else [g.split_heads(g.in_dtype(m.q, dtype), heads, size)]
    return [(x, size) for x in (*own, *parts)]


def split_heads_of(g: Graph, m: FusedAttention, heads: int, groups: int, dtype: Any) -> list[tuple[Tensor, int]]:
    """Return the queries, keys and values of any other op as heads, with their numbers of columns."""
    if m.k is None or m.k.rank == 5:
        return packed(g, m, heads, dtype)
    require_known_lengths(m)
    sides = [x.shape[1::2] if x.rank == 4 else x.shape[2:] for x in (m.q, m.k, m.v)]
    require(all(isinstance(size, int) for side in sides for size in side), "the size of the heads is unknown")
    widths = [prod(side) for side in sides]
    shifts = [None] * 3 if m.qkv_bias is None else g.split(g.in_dtype(m.qkv_bias, dtype), widths, axis=-1, outputs=3)
    found = []
    for x, own, width, shift in zip((m.q, m.k, m.v), (heads, groups, groups), widths, shifts, strict=True):
        require(x.rank == 3 or shift is None, "a bias of queries, keys and values needs inputs with three axes")
        made = g.optional(g.add(g.in_dtype(x, dtype), shift))
        found.append((made if x.rank == 4 else g.split_heads(made, own, width // own), width // own))
    return found
