"""What rules of attention have in common: the scores, what becomes of them, and how ops that take them are written."""

from math import prod
from typing import Any

import numpy as np
from onnx import helper

from surgeon import Graph, Tensor, dims, require
from ._grouped import cap_of, grouped, require_grouped
from ._masks import bias_of, fitted
from ._matrices import apart, in_windows, queries
from ._scores import Scores

FLOATS = ("float32", "float16", "bfloat16", "float64")
NON_FINITE = "an infinity or NaN may spread to other numbers of its row, or not reach them"


class Core(Scores):
    """softmax(scale · q·kᵀ + mask)·v in parts, for several heads, for one that has no axis, or for heads of windows."""

    q: Tensor = dims("batch heads rows columns", "batch rows _", "batch _ _ rows _")
    kt: Tensor = dims("batch groups _ keys", "batch _ keys", "batch _ _ _ keys")
    v: Tensor = dims("batch others _ width", "batch _ _", "batch _ _ _ _")
    heads: int = 1
    groups: Any = 1
    others: Any = 1
    columns: int = 0
    width: int = 0


def has_heads(m: Core) -> None:
    """A batch, heads, rows and columns; or a batch, rows and columns, of one head each.

    One head of keys and values may serve all of queries (multi-query attention, Shazeer, arXiv:1911.02150).
    """
    require(m.q.rank == m.kt.rank == m.v.rank, "queries, keys and values have different numbers of axes")
    require(m.q.dtype is None or m.q.dtype in FLOATS, "queries are no floats")
    alike = m.groups == m.others and m.groups in (1, m.heads)
    require(alike, "queries, keys and values have different numbers of heads")
    if m.q.rank == 5:
        is_fixed = all(isinstance(size, int) for x in (m.q, m.kt, m.v) for size in x.shape[1:])
        require(is_fixed and not m.given, "heads of windows are masked, or of free sizes")
        require(m.q.shape[:3] == m.kt.shape[:3] == m.v.shape[:3], "queries, keys and values have different windows")


def scale_of(m: Scores) -> float:
    """The number that the scores are multiplied with in all."""
    scale = float(prod((m.left, m.right, m.scale)))
    least, most = (float(number) for number in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))
    require(least <= abs(scale) <= most, f"a scale of {scale:g} cannot be told to an op, for which 0 means its own")
    return scale


def result_dtype(m: Scores) -> Any:
    """The dtype in which the weights meet the values."""
    return m.read.dtype if m.wide is None else np.dtype(helper.tensor_dtype_to_np_dtype(m.wide))


def dtype_of(m: Scores) -> Any:
    """The dtype to compute in: the result's, or that of a mask of more digits, to which the scores were cast."""
    made, own = result_dtype(m), m.read.dtype
    require(made is not None and own is not None, "the dtype of the values is unknown")
    require(own in FLOATS, "the values are no floats")
    require(np.promote_types(made, own) == made, "the values are cast to a dtype of fewer digits")
    for mask in m.masks:
        made = made if mask.dtype is None else np.promote_types(mask.dtype, made)
    return made


def joined(g: Graph, x: Tensor, perm: list[int], heads: int, dtype: Any, made: Any = None) -> Tensor:
    """The heads of a tensor beside each other in its last axis; one head alone is copied for all.

    made: what a rule made of the tensor, of its shape and dtype, to be taken in its place.
    """
    own, width = x if made is None else made, x.shape[perm[3]]
    require(isinstance(width, int), f"the width of a head of {x.name!r} is unknown")
    if x.shape[perm[2]] == heads:
        rows = g.transpose(own, perm=perm)
    else:
        first = [perm[0], perm[2], perm[1], perm[3]]
        one = x if first == sorted(first) else g.transpose(x, perm=first)
        rows = g.heads_first(g.repeated_heads(one, 1, heads, width))
    return g.in_dtype(g.reshape(rows, [0, 0, heads * width]), dtype)


def finished(g: Graph, m: Scores, made: Tensor) -> Tensor:
    """What an op made, with the guard of the softmax behind it, in the result's dtype."""
    return g.in_dtype(made if m.guarded is None else g.nan_to_zero(made), result_dtype(m))


def fused(g: Graph, m: Core) -> Tensor:
    """ONNX Runtime's op, between the transposes and reshapes that its layout wants.

    GroupQueryAttention where scores are capped or have sinks, MultiHeadAttention elsewhere.
    """
    dtype, heads, scale = dtype_of(m), m.heads, scale_of(m)
    bias = fitted(g, m, bias_of(g, m, dtype), m.kt.shape[-1], lambda: g.size_of(m.kt, m.kt.rank - 1))
    is_grouped = m.cap is not None or m.sink is not None
    if m.q.rank != 4:
        require(not is_grouped, "MultiHeadAttention cannot cap its scores, and knows no sinks")
        ours, keys, values = apart(g, m, m.kt, m.v, dtype)
    else:
        ours = joined(g, m.q, [0, 2, 1, 3], heads, dtype, queries(g, m, dtype))
        keys, values = (joined(g, x, perm, heads, dtype) for x, perm in ((m.kt, [0, 3, 1, 2]), (m.v, [0, 2, 1, 3])))
    if is_grouped:
        require(m.columns == m.width, "GroupQueryAttention wants keys and values of one size")
        require_grouped(m.q.shape[2], m.kt.shape[3], m.columns)
        made = grouped(g, (ours, keys, values), bias, heads, heads, scale=scale, **cap_of(g, m, heads))[0]
    else:
        made = g.ms_multi_head_attention(ours, keys, values, attention_bias=bias, num_heads=heads, scale=scale)
    made = finished(g, m, made)
    return g.split_heads(made, heads, m.width) if m.q.rank == 4 else in_windows(g, m, made, m.v)
