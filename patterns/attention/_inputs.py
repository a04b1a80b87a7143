"""The inputs of attention ops: scaled queries, and queries, keys and values as batches of one head each."""

from typing import Any

import numpy as np
from ml_dtypes import finfo

from surgeon import Graph, Tensor, require
from .._common.where_masks import where_masked
from ._decomposed_attention import AttentionCore
from ._masks import ABSORBING_VALUE, leaves_a_key_in_each_row, may_mask_other_keys


def scaled_queries(g: Graph, m: AttentionCore, dtype: Any) -> Tensor:
    """Multiply the queries by the number of each head, and by zero in rows that the condition may hide fully.

    The zeros are needed only if adding the least number of the dtype does not absorb the scores.
    """
    q = m.q
    if m.factor is not None:
        require(
            m.factor.shape is not None and m.factor.dtype == q.dtype,
            "the shape or dtype of a factor of the scores is unknown",
        )
        sizes = (*[1] * (q.rank - m.factor.rank), *m.factor.shape)
        is_number = m.factor.is_constant and set(sizes) == {1}
        require(
            not is_number,
            f"the scale {m.factor.name!r} does not fit the attribute of an op: it is float32, and 0 means the default",
        )
        fits = len(sizes) == q.rank and all(size in (1, own) for size, own in zip(sizes[:-1], q.shape, strict=False))
        require(fits and sizes[-1] == 1, "the scores may be multiplied only by a number or by one number for each head")
        q = g.mul(q, m.factor)
    is_lost = m.low is None or not np.isfinite(m.hides_by) or float(finfo(dtype).min) < ABSORBING_VALUE
    if is_lost or may_mask_other_keys(m) or leaves_a_key_in_each_row(*m.condition):
        return q
    condition, is_kept = m.condition
    reduce = g.reduce_max if is_kept else g.reduce_min
    of_row = g.cast(reduce(g.cast(condition, to="int32"), [-1], keepdims=1), to="bool")
    return where_masked(g, m.under(of_row), q, 0.0)


def batched_qkv(g: Graph, m: AttentionCore, dtype: Any) -> list[Tensor]:
    """Return queries, keys and values in a dtype.  An axis for windows is merged into the batch."""
    *ahead, last, end = range(m.q.rank)
    keys = g.transpose(m.kt, perm=[*ahead, end, last])
    found = [g.in_dtype(x, dtype) for x in (scaled_queries(g, m, dtype), keys, m.v)]
    if m.q.rank < 5:
        return found
    sides = (m.q.shape[3:], m.kt.shape[:2:-1], m.v.shape[3:])
    return [g.reshape(x, [-1, *own]) for x, own in zip(found, sides, strict=True)]


def with_window_axes(g: Graph, m: AttentionCore, made: Tensor) -> Tensor:
    """Restore the axes of the queries in a result of one batch."""
    return made if m.q.rank < 5 else g.reshape(made, [-1, *m.q.shape[1:4], m.v.shape[4]])
