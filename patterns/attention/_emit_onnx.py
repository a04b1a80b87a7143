"""Attention (ONNX) as its kernels require it."""

from typing import Any

import numpy as np
from ml_dtypes import finfo

from surgeon import Graph, Tensor, require
from .._common.where_masks import where_masked
from ._decomposed_attention import AttentionCore
from ._emit_ort import core_dtype, total_scale, with_nan_guard
from ._inputs import batched_qkv, with_window_axes
from ._masks import MASKING_THRESHOLD, additive_bias, broadcast_bias, leaves_a_key_in_each_row, masks_nothing

HALF_ROUNDING_LIMIT = -64  # below it, the kernel's sums in half precision keep at best 1/16 of a score


def emit_onnx_attention(g: Graph, m: AttentionCore) -> Tensor:
    """Write Attention for [batch, heads, rows, columns].  If there is only one head, the model has no axis for it.

    The specification allows a mask of any shape that broadcasts, but the kernel of ONNX Runtime needs its last two axes
    in full.  A sink becomes one more key of zeros, whose value is zero too.  The sink itself is added to the score of
    this key.
    """
    require(m.sink is None or m.cap is None, "Attention would cap the scores of the sinks too")
    dtype, rank = core_dtype(m), m.q.rank
    if dtype == np.float16 and abs(total_scale(m)) > 1:
        dtype = np.dtype(np.float32)  # scores that the graph scales in float32 may overflow in float16
    added = attention_mask(g, m, dtype) if m.sink is None else additive_bias(g, m, dtype)
    mask = broadcast_bias(g, m, added, keys=m.kt.shape[-1], count=lambda: g.size_of(m.kt, rank - 1))
    q, k, v = batched_qkv(g, m, dtype)
    if m.sink is not None:
        mask = mask_with_sink(g, m, mask, dtype)
        k, v = (g.pad(x, np.array([0] * 6 + [1, 0])) for x in (k, v))
    if rank != 4:
        q, k, v = (g.unsqueeze(x, [1]) for x in (q, k, v))
    made = g.attention(q, k, v, mask, scale=total_scale(m), softcap=m.cap)
    return with_window_axes(g, m, with_nan_guard(g, m, made if rank == 4 else g.squeeze(made, [1])))


def mask_with_sink(g: Graph, m: AttentionCore, mask: Tensor | None, dtype: Any) -> Tensor:
    """Return the bias of the scores with the sinks in one more column.

    If a sink is known not to be a low number, every row sees it.  Otherwise a row may be fully hidden.
    """
    sink = m.sink
    is_column = sink.shape is not None and 0 < sink.rank <= 4 == m.q.rank and sink.shape[-1] == 1
    require(is_column, "a sink must be one number next to the scores of each row")
    column = g.in_dtype(g.unsqueeze(sink, list(range(4 - sink.rank))) if sink.rank < 4 else sink, dtype)
    zero: Any = np.zeros(1, np.int64)
    column = g.pad(column, g.concat(*[zero] * 3, g.size_of(m.kt, 3), *[zero] * 4, axis=0))
    if mask is None:
        return g.spread(column, [1, 1, g.size_of(m.q, 2), 1])
    made: Tensor = g.add(g.pad(mask, np.array([0] * 7 + [1])), column)
    return made if masks_nothing(sink) else keep_fully_masked_rows(g, made, dtype, not m.is_guarded)


def attention_mask(g: Graph, m: AttentionCore, dtype: Any) -> Any:
    """Return the bias of the scores, or the boolean mask if nothing else hides scores and it hides them with −∞."""
    has_nan = not m.is_guarded
    if m.masks or m.low is None:
        is_shown = len(m.given) < 2 and all(leaves_a_key_in_each_row(mask, MASKING_THRESHOLD) for mask in m.given)
        added = additive_bias(g, m, dtype)
        return added if is_shown else keep_fully_masked_rows(g, added, dtype, has_nan)
    condition, is_kept = m.condition
    if np.isfinite(m.hides_by):
        return where_masked(g, m, np.zeros((), dtype), two_lowest_values(dtype)[1])
    if has_nan and not leaves_a_key_in_each_row(condition, is_kept):
        return keep_fully_masked_rows(g, additive_bias(g, m, dtype), dtype)
    return condition if is_kept else g.not_(condition)


def two_lowest_values(dtype: Any) -> tuple[Any, Any]:
    """Return the least number of a dtype, which the kernel of ONNX Runtime treats as −∞, and the next larger one."""
    least = np.array(finfo(dtype).min, dtype)
    return least, np.nextafter(least, np.zeros((), dtype))


def row_maximum(g: Graph, added: Tensor) -> Tensor:
    """Return the maximum of each row.  A scalar for all rows has no axis to reduce."""
    return added if added.shape is not None and len(added.shape) == 0 else g.reduce_max(added, [-1], keepdims=1)


def keep_fully_masked_rows(g: Graph, added: Tensor, dtype: Any, has_nan: bool = True) -> Tensor:
    """Return the bias in a form that keeps the result of fully masked rows.

    The kernel of ONNX Runtime treats the least number of a dtype as −∞, and returns zero for a row of it.  In float32,
    adding this number to the scores of a whole row absorbs them, and the row becomes the mean of the values.  The next
    larger number has the same effect.  In float16 some differences between the scores remain.  Softmax sees them if the
    number that the whole row has in common is subtracted again.

    has_nan: softmax of a row of −∞ must give NaN, for which the operator itself gives zero. −∞ minus −∞ is NaN.
    """
    if dtype == np.float16:
        most = row_maximum(g, added)
        return g.sub(added, g.where(g.less(most, np.array(HALF_ROUNDING_LIMIT, dtype)), most, np.zeros((), dtype)))
    least, above = two_lowest_values(dtype)
    made: Tensor = g.where(g.equal(added, least), above, added)
    if has_nan:
        most = row_maximum(g, added)
        made = g.add(made, g.sub(most, most))
    return made
