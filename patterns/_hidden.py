"""Rows of scores that a condition hides whole, and what is written so that softmax makes of them what it made before.

Softmax makes the same weight for every key of a row whose scores are all one low number.  Where that number is added to
scores instead, it must leave nothing of them, or there must be none: the queries of such rows are zero then.
"""

from typing import Any

import numpy as np
from ml_dtypes import finfo

from surgeon import Graph, Tensor, require
from ._scores import Scores

LOWEST = -1e4  # what is added to the scores of keys that are not to be seen is below
DROWNS = -1e30  # beside what is below, scores are lost in rounding, in double precision up to 1e13


def number_of(m: Scores, dtype: Any) -> Any:
    """What stands for a hidden score in an operation of a dtype: −∞, or the least number, which leaves most of a row.

    With a mask that may hide keys too, the number stays what it was, so that keys that both hide come behind those that
    one of them does.  Refuses a number beside which scores count, where a row may be hidden by both.
    """
    low, least = m.low, float(finfo(dtype).min)
    require(low is not None and low < LOWEST, f"{low} in the place of a score hides nothing")
    if not np.isfinite(low):
        return np.array(low, dtype)
    if not hides_more(m):
        return np.array(least, dtype)
    is_told = all(is_mild(mask) for mask in m.masks) and shows_rows(*m.condition)
    require(
        is_told or least <= low < DROWNS,
        f"a row that the condition hides together with a mask would not be the same: beside {low:g} scores still count",
    )
    return np.array(max(low, least), dtype)


def hides_more(m: Scores) -> bool:
    """Whether hidden scores may differ: by a mask behind the condition, or as one before it hides those that are left.

    A mild mask before the condition does neither: what the condition hides is all one number.
    """
    return m.second is not None or (m.mask is not None and not is_mild(m.mask))


def is_mild(mask: Tensor) -> bool:
    """Whether a mask surely hides nothing, as a bias that depends on the distance of two places."""
    return mask.is_constant and bool((mask.values.astype(np.float64) > LOWEST).all())


def queries(g: Graph, m: Scores, dtype: Any) -> Tensor:
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
    is_lost = m.low is None or not np.isfinite(m.low) or float(finfo(dtype).min) < DROWNS
    if is_lost or hides_more(m) or shows_rows(*m.condition):
        return q
    condition, is_kept = m.condition
    numbers = g.cast(condition, to="int32")
    if is_kept:
        return g.where(g.cast(g.reduce_max(numbers, [-1], keepdims=1), to="bool"), q, 0.0)
    return g.where(g.cast(g.reduce_min(numbers, [-1], keepdims=1), to="bool"), 0.0, q)


def shows_rows(mask: Tensor, shown: Any) -> bool:
    """Whether a mask surely leaves a key to every row: the first, or the last before a diagonal.

    shown: what it holds for keys that are seen: a truth in a condition, more than this number in what is added.
    """
    choice, sizes = mask.choice, mask.shape
    if choice is None or not sizes:
        return False
    pair = (choice.inside, choice.outside)
    truths = [bool(value == shown if isinstance(shown, bool) else value > shown) for value in pair]
    if truths[0] is truths[1]:
        return truths[0]
    bounds = choice.bounds if truths[0] else () if choice.opposite is None else choice.opposite.bounds
    first = [bound._replace(offset=0, strides=(0,) * len(sizes)) for bound in bounds[:1]]
    ends = [end for bound in bounds if (end := end_of(bound, sizes)) is not None]
    return any(all(holds(bound, key, sizes) for bound in bounds) for key in (*first, *ends))


def holds(bound: Any, key: Any, sizes: Any) -> bool:
    """Whether a bound is at least 0 at one key of every row.  key: which one that is, as an index of the rows."""
    *rows, step = bound.strides
    return bool(bound._replace(strides=(*rows, 0)).plus(key, step).is_at_least(0, sizes))


def end_of(bound: Any, sizes: Any) -> Any:
    """The last key that a diagonal leaves to a row, as an index of the rows; None where rows may end before it."""
    if len(sizes) < 2 or any(bound.strides[:-2]) or tuple(bound.strides[-2:]) != (1, -1):
        return None
    end = bound._replace(strides=(*bound.strides[:-1], 0))
    left = end.times(-1).plus_number(sizes[-1] - 1)
    return end if all(index.is_at_least(0, sizes) for index in (end, left)) else None
