"""What rules of attention have in common: the scores, what becomes of them, and how ops that take them are written."""

from math import prod
from typing import Any

import numpy as np
from onnx import helper

from surgeon import Graph, Match, Tensor, require
from ._grouped import grouped, require_grouped
from ._hidden import queries
from ._layouts import HEADS_FIRST, heads_of_rows
from ._masks import bias_of, fitted, given

FLOATS = ("float32", "float16", "bfloat16", "float64")
NON_FINITE = "an infinity or NaN may spread to other numbers of its row, or not reach them"


def scores(g: Graph, q: Tensor, kt: Tensor, left: float, right: float, scale: float, cap: float) -> Tensor:
    """q·kᵀ, with numbers on q, on k, and on the product, which may be capped: cap · tanh(scores / cap)."""
    product = g.maybe_wider(g.matmul(g.any_of(g.mul(q, left), q), g.any_of(g.mul(kt, right), kt)))
    scaled = g.any_of(g.mul(product, scale), product)
    return g.any_of(g.mul(g.tanh(g.div(scaled, cap)), cap), scaled)


def weighted(g: Graph, masked: Tensor, v: Tensor, wide: int) -> Tensor:
    """softmax(masked scores)·v, the softmax in a wider dtype if need be, and 0 for a row that is all masked."""
    soft = g.softmax(g.maybe_wider(masked), axis=-1)
    weights = g.any_of(g.where(g.isnan(soft), 0.0, g.capture("guarded", soft)), soft)
    return g.matmul(g.maybe_narrower(weights), g.any_of(g.cast(v, to=wide), v))


def has_heads(q: Tensor, kt: Tensor, v: Tensor) -> None:
    """A batch, heads, rows and columns, heads and columns fixed; or a batch, rows and columns, of one head each.

    One head of keys and values may serve all of queries (multi-query attention, Shazeer, arXiv:1911.02150).
    """
    require(
        q.rank == kt.rank == v.rank and q.rank in (3, 4),
        "queries, keys or values have other axes than batch, head, row, column",
    )
    require(q.dtype is None or q.dtype in FLOATS, "queries are no floats")
    batches = [x.shape and x.shape[0] for x in (q, kt, v)]
    require(None not in batches and len(set(batches)) == 1, "the batches of queries, keys and values may differ")
    if q.rank == 4:
        alike = kt.shape[1] == v.shape[1] and kt.shape[1] in (1, q.shape[1])
        require(alike, "queries, keys and values have different numbers of heads")
        fixed = (q.shape[1], q.shape[3], v.shape[3])
        require(all(isinstance(size, int) for size in fixed), "the number of heads, or their size, is unknown")


def scale_of(match: Match) -> float:
    """The number that the scores are multiplied with in all."""
    scale = float(prod(match[name] for name in ("left", "right", "scale") if name in match.bound))
    least, most = (float(number) for number in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))
    require(least <= abs(scale) <= most, f"a scale of {scale:g} cannot be told to an op, for which 0 means its own")
    return scale


def result_dtype(match: Match) -> Any:
    """The dtype in which the weights meet the values."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(match["wide"])) if "wide" in match.bound else match["v"].dtype


def dtype_of(match: Match) -> Any:
    """The dtype to compute in: the result's, or that of a mask of more digits, to which the scores were cast."""
    made, own = result_dtype(match), match["v"].dtype
    require(made is not None and own is not None, "the dtype of the values is unknown")
    require(np.promote_types(made, own) == made, "the values are cast to a dtype of fewer digits")
    for name in ("mask", "second"):
        dtype = match[name].dtype if name in match.bound else None
        made = made if dtype is None else np.promote_types(dtype, made)
    return made


def in_dtype(g: Graph, x: Tensor, wanted: Any, own: Any = None) -> Tensor:
    """A tensor in a dtype.  own: the dtype that it has, where it does not know it itself."""
    return x if (x.dtype if own is None else own) == wanted else g.cast(x, to=wanted)


def joined(g: Graph, x: Tensor, perm: list[int], heads: int, dtype: Any, made: Any = None) -> Tensor:
    """The heads of a tensor beside each other in its last axis; one head alone is copied for all.

    made: what a rule made of the tensor, of its shape and dtype, to be taken in its place.
    """
    own, width = x if made is None else made, x.shape[perm[3]]
    require(isinstance(width, int), f"the width of a head of {x.name!r} is unknown")
    rows = g.transpose(own, perm=perm) if x.shape[perm[2]] == heads else copied(g, x, perm, heads)
    return in_dtype(g, g.reshape(rows, [0, 0, heads * width]), dtype, x.dtype)


def copied(g: Graph, x: Tensor, perm: list[int], heads: int) -> Tensor:
    """[batch, rows, heads, columns] of copies of one head, made as exporters do, so that rules know them again."""
    first = [perm[0], perm[2], perm[1], perm[3]]
    one = x if first == sorted(first) else g.transpose(x, perm=first)
    copies = g.expand(g.unsqueeze(one, [2]), np.array([1, 1, heads, 1, 1], np.int64))
    return g.transpose(g.reshape(copies, [0, heads, -1, x.shape[perm[3]]]), perm=[0, 2, 1, 3])


def without_nan(g: Graph, made: Tensor) -> Tensor:
    """A tensor with 0 in the place of NaN."""
    return g.where(g.isnan(made), 0.0, made)


def finished(g: Graph, match: Match, made: Tensor, dtype: Any) -> Tensor:
    """What an op of ONNX Runtime's made in a dtype, with the guard of the softmax behind it, in the result's dtype."""
    if "guarded" in match.bound:
        made = without_nan(g, made)
    return in_dtype(g, made, result_dtype(match), dtype)


def fused(g: Graph, match: Match) -> Tensor:
    """ONNX Runtime's op, between the transposes and reshapes that its layout wants.

    GroupQueryAttention where scores are capped, MultiHeadAttention elsewhere.
    """
    q, kt, v = match["q"], match["kt"], match["v"]
    if q.rank == 3:
        return of_one_head(g, match, q, kt, v)
    dtype = dtype_of(match)
    bias = bias_of(g, match, dtype)
    bias = None if bias is None else fitted(g, bias, given(match), q, kt)
    heads, scale = q.shape[1], scale_of(match)
    ours = joined(g, q, HEADS_FIRST, heads, dtype, queries(g, match, dtype))
    keys, values = (joined(g, x, perm, heads, dtype) for x, perm in ((kt, [0, 3, 1, 2]), (v, HEADS_FIRST)))
    if "cap" in match.bound:
        require(q.shape[3] == v.shape[3], "GroupQueryAttention wants keys and values of one size")
        require_grouped(q.shape and q.shape[2], kt.shape and kt.shape[3], q.shape[3])
        made = grouped(g, ours, keys, values, bias, heads, heads, scale=scale, softcap=match["cap"])
    else:
        made = g.ms_multi_head_attention(ours, keys, values, None, None, bias, num_heads=heads, scale=scale)
    return heads_of_rows(g, finished(g, match, made, dtype), heads, v.shape[3])


def of_one_head(g: Graph, match: Match, q: Tensor, kt: Tensor, v: Tensor) -> Tensor:
    """MultiHeadAttention of one head, for queries, keys and values of [batch, row, column]."""
    require("cap" not in match.bound, "MultiHeadAttention cannot cap its scores")
    dtype = dtype_of(match)
    bias = bias_of(g, match, dtype)
    bias = None if bias is None else fitted(g, bias, given(match), q, kt)
    parts = ((queries(g, match, dtype), q), (g.transpose(kt, perm=[0, 2, 1]), kt), (v, v))
    ours, keys, values = (in_dtype(g, made, dtype, x.dtype) for made, x in parts)
    made = g.ms_multi_head_attention(ours, keys, values, None, None, bias, num_heads=1, scale=scale_of(match))
    return finished(g, match, made, dtype)
