"""ONNX's own Attention, as its kernels want it."""

from typing import Any

import numpy as np
from ml_dtypes import finfo

from surgeon import Graph, Tensor, require
from .._common.where_masks import chosen
from ._decomposed_attention import Core
from ._emit_ort import dtype_of, finished, scale_of
from ._inputs import apart, in_windows
from ._masks import LOWEST, bias_of, fitted, is_mild, shows_rows

COARSE = -64  # below it, half precision leaves 1/16 of a score at best, as the kernel adds up in it


def standard(g: Graph, m: Core) -> Tensor:
    """ONNX's own op, of [batch, heads, rows, columns]; one head has no axis of heads in the model.

    The operator's text lets a mask have any shape that broadcasts; ONNX Runtime's kernel wants its last two in full.
    A sink becomes one more key, of zeros, whose value is zero too: what is added to its score is the sink.
    """
    require(m.sink is None or m.cap is None, "Attention would cap the scores of the sinks too")
    dtype, rank = dtype_of(m), m.q.rank
    added = put_in(g, m, dtype) if m.sink is None else bias_of(g, m, dtype)
    mask = fitted(g, m, added, m.kt.shape[-1], lambda: g.size_of(m.kt, rank - 1))
    q, k, v = apart(g, m, dtype)
    if m.sink is not None:
        mask = beside_mask(g, m, mask, dtype)
        k, v = (g.pad(x, np.array([0] * 6 + [1, 0])) for x in (k, v))
    if rank != 4:
        q, k, v = (g.unsqueeze(x, [1]) for x in (q, k, v))
    made = g.attention(q, k, v, mask, scale=scale_of(m), softcap=m.cap)
    return in_windows(g, m, finished(g, m, made if rank == 4 else g.squeeze(made, [1])))


def beside_mask(g: Graph, m: Core, mask: Tensor | None, dtype: Any) -> Tensor:
    """What is added to the scores, and the sinks in one more column behind it.

    A sink that is surely no low number is seen in every row; with another, a row may be hidden whole.
    """
    sink = m.sink
    is_column = sink.shape is not None and 0 < sink.rank <= 4 == m.q.rank and sink.shape[-1] == 1
    require(is_column, "the sinks are not one number beside the scores of a row")
    column = g.in_dtype(g.unsqueeze(sink, list(range(4 - sink.rank))) if sink.rank < 4 else sink, dtype)
    zero: Any = np.zeros(1, np.int64)
    column = g.pad(column, g.concat(*[zero] * 3, g.size_of(m.kt, 3), *[zero] * 4, axis=0))
    if mask is None:
        return g.spread(column, [1, 1, g.size_of(m.q, 2), 1])
    made: Tensor = g.add(g.pad(mask, np.array([0] * 7 + [1])), column)
    return made if is_mild(sink) else seen(g, made, dtype, not m.is_guarded)


def put_in(g: Graph, m: Core, dtype: Any) -> Any:
    """What is added to the scores, or the condition itself where it alone hides some of them with −∞."""
    has_nan = not m.is_guarded
    if m.masks or m.low is None:
        is_shown = len(m.given) < 2 and all(shows_rows(mask, LOWEST) for mask in m.given)
        added = bias_of(g, m, dtype)
        return added if is_shown else seen(g, added, dtype, has_nan)
    condition, is_kept = m.condition
    if np.isfinite(m.hides_by):
        return chosen(g, m, np.zeros((), dtype), limits(dtype)[1])
    if has_nan and not shows_rows(condition, is_kept):
        return seen(g, bias_of(g, m, dtype), dtype)
    return condition if is_kept else g.not_(condition)


def limits(dtype: Any) -> tuple[Any, Any]:
    """The least number of a dtype, which ONNX Runtime's kernel takes for −∞, and the one above it."""
    least = np.array(finfo(dtype).min, dtype)
    return least, np.nextafter(least, np.zeros((), dtype))


def largest_of(g: Graph, added: Tensor) -> Tensor:
    """The largest number of each row; one number for all of them has no axis to go along."""
    return added if added.shape is not None and len(added.shape) == 0 else g.reduce_max(added, [-1], keepdims=1)


def seen(g: Graph, added: Tensor, dtype: Any, has_nan: bool = True) -> Tensor:
    """What is added to the scores, where a row that it hides whole stays what it is.

    ONNX Runtime's kernel takes the least number of a dtype for −∞, and makes a row of it zero.  Added to the scores of
    a whole row in float32, that number leaves nothing of them, and the row becomes the mean of the values: the number
    above it does so too.  In float16 they keep some of their differences, all of which softmax sees once what the whole
    row has in common is taken off again.

    has_nan: softmax of a row of −∞ is to be NaN, which the operator by itself makes zero; −∞ less −∞ is NaN.
    """
    if dtype == np.float16:
        most = largest_of(g, added)
        return g.sub(added, g.where(g.less(most, np.array(COARSE, dtype)), most, np.zeros((), dtype)))
    least, above = limits(dtype)
    made: Tensor = g.where(g.equal(added, least), above, added)
    if has_nan:
        most = largest_of(g, added)
        made = g.add(made, g.sub(most, most))
    return made
