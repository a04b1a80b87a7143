"""Queries of an attention as ops take them, and queries, keys and values as batches of matrices of one head each."""

from typing import Any

import numpy as np
from ml_dtypes import finfo

from surgeon import Graph, Tensor, require
from .._common.where_masks import where_masked
from ._decomposed_attention import AttentionCore
from ._masks import ABSORBING_VALUE, leaves_a_key_in_each_row, may_mask_other_keys


def scaled_queries(g: Graph, m: AttentionCore, dtype: Any) -> Tensor:
    """The queries times the number of each head, zero in rows that the condition may hide whole, where need be.

    That is where the least number of a dtype leaves something of the scores.
    """
    q = m.q
    if m.factor is not None:
        require(m.factor.shape is not None and m.factor.dtype == q.dtype, "a factor of the scores is unknown")
        sizes = (*[1] * (q.rank - m.factor.rank), *m.factor.shape)
        is_number = m.factor.is_constant and set(sizes) == {1}
        require(not is_number, f"a scale of {m.factor.name!r} cannot be told to an op, for which 0 means its own")
        fits = len(sizes) == q.rank and all(size in (1, own) for size, own in zip(sizes[:-1], q.shape, strict=False))
        require(fits and sizes[-1] == 1, "the scores are multiplied with other than a number of each head")
        q = g.mul(q, m.factor)
    is_lost = m.low is None or not np.isfinite(m.hides_by) or float(finfo(dtype).min) < ABSORBING_VALUE
    if is_lost or may_mask_other_keys(m) or leaves_a_key_in_each_row(*m.condition):
        return q
    condition, is_kept = m.condition
    reduce = g.reduce_max if is_kept else g.reduce_min
    of_row = g.cast(reduce(g.cast(condition, to="int32"), [-1], keepdims=1), to="bool")
    return where_masked(g, m.under(of_row), q, 0.0)


def batched_qkv(g: Graph, m: AttentionCore, dtype: Any) -> list[Tensor]:
    """Queries, keys and values in a dtype; where windows have their own axis, it is merged into the batch."""
    *ahead, last, end = range(m.q.rank)
    keys = g.transpose(m.kt, perm=[*ahead, end, last])
    found = [g.in_dtype(x, dtype) for x in (scaled_queries(g, m, dtype), keys, m.v)]
    if m.q.rank < 5:
        return found
    sides = (m.q.shape[3:], m.kt.shape[:2:-1], m.v.shape[3:])
    return [g.reshape(x, [-1, *own]) for x, own in zip(found, sides, strict=True)]


def with_window_axes(g: Graph, m: AttentionCore, made: Tensor) -> Tensor:
    """What was made of one batch, with the axes of the queries."""
    return made if m.q.rank < 5 else g.reshape(made, [-1, *m.q.shape[1:4], m.v.shape[4]])
