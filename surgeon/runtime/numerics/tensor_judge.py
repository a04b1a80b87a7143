"""Judge one tensor of a rewritten region against a run of the original in higher precision.

The original has rounding errors too, and a fused operator with smaller errors differs from it, so the reference
decides.  A result may differ from it by a tolerance, relative to the scale of similar elements.  A further allowance is
four times the move of the reference if its inputs or rounded intermediate numbers move by one unit in the last place.
No form of an ill-conditioned sum is more accurate.

A tensor may contain numbers of many magnitudes: scores next to the -3.4e38 of a mask, a bias next to a product.  Each
number is judged relative to those of similar magnitude, so that a large number does not hide an error of a small one.
"""

import math

import numpy as np

from surgeon.runtime.numerics.allowances import ROUNDING_FACTOR, JudgeSettings
from surgeon.runtime.numerics.array_comparison import (
    TOLERANCES,
    dtype_name,
    max_abs_difference,
    mismatch_reason,
)
from surgeon.runtime.numerics.float_judge import FloatJudge
from surgeon.runtime.numerics.sensitivity import Sensitivity, difference
from surgeon.runtime.numerics.tensor_error import Deviation, TensorError, worst_error

__all__ = ["ROUNDING_FACTOR", "Deviation", "TensorError", "judge_tensor", "worst_error"]


def judge_tensor(
    name: str,
    original: np.ndarray,
    rewritten: np.ndarray,
    reference: np.ndarray | None,
    moved: Sensitivity | float,
    asked: JudgeSettings | None = None,
) -> TensorError:
    """Judge the rewritten region's result for tensor `name`.

    reference: the original's result in float64 or wider.  If it is None, or has another shape because shapes depend on
    values, the original is the reference.  moved: the sensitivity of the reference, or one number if all elements move
    smoothly.  asked: by default the tolerance of the original's dtype.

    A float passes if it is within rtol * scale + noise of the reference, or not further from it than the original.  The
    scale is the largest magnitude of similar elements (`MagnitudeClasses`).  The noise is the largest of
    4 * max(moved, own) and sqrt(terms) * (move by the inputs) over similar elements, plus rtol of the terms that
    explain such a move.  `own` is the original's error, as far as rounding explains it.  For an element that jumped,
    the noise is 4 times its jump.  Integers that the original computes exactly get no absolute error.

    NaN and infinity (in the output's dtype: 1e39 is infinite in float32) must be those of the reference.  If the
    original differs from the reference because it overflowed inside, the result may be like either.  Integers, booleans
    and strings must equal the original's or the reference's, or move no more than that did.
    """
    dtype = dtype_name(original)
    if why := mismatch_reason(original, rewritten):
        infinite = Deviation(math.inf, math.inf, math.inf)
        return TensorError(
            name, dtype, None, rewritten=infinite, scale=0.0, allowed=0.0, ok=False, why=why, severity=math.inf
        )
    if reference is not None and reference.shape != original.shape:
        reference = None
    movement = moved if isinstance(moved, Sensitivity) else Sensitivity.uniform(moved)
    with np.errstate(all="ignore"):
        if dtype not in TOLERANCES:
            return _judge_exact(name, dtype, original, rewritten=rewritten, reference=reference, movement=movement)
        settings = JudgeSettings(original.dtype) if asked is None else asked
        return FloatJudge(original, rewritten, reference, moved=movement, asked=settings).judge(name)


def _judge_exact(
    name: str,
    dtype: str,
    original: np.ndarray,
    rewritten: np.ndarray,
    reference: np.ndarray | None,
    movement: Sensitivity,
) -> TensorError:
    """Judge integers, booleans or strings: each equals the original's or the reference's, or jumps like the latter."""
    wrong = np.asarray(original != rewritten) & ~((original != original) & (rewritten != rewritten))
    numeric = dtype not in ("string", "bool")
    right = original if reference is None else reference
    if reference is not None:
        wrong &= np.asarray(reference != rewritten)
    if numeric:
        wrong &= (movement.jumps == 0) | (difference(rewritten, right) > movement.jumps)
    elif dtype == "bool":
        wrong &= movement.jumps == 0
    scale = max_abs_difference(right, np.zeros_like(right)) if numeric else 1.0
    count = int(np.count_nonzero(wrong))
    gap = _exact_deviation(rewritten[wrong], original[wrong], 1.0).max_abs
    by = f", by {gap:.4g} at most" if numeric else ""
    why = f"differs in {count} of {original.size} elements{by}" if count else ""
    before = None if reference is None else _exact_deviation(original, right, scale)
    severity = math.inf if count else 0.0
    return TensorError(
        name,
        dtype,
        before,
        rewritten=_exact_deviation(rewritten, right, scale),
        scale=scale,
        allowed=0.0,
        ok=not why,
        why=why,
        severity=severity,
        gap=gap,
        place=int(np.argmax(wrong)) if count else None,
    )


def _exact_deviation(result: np.ndarray, right: np.ndarray, scale: float) -> Deviation:
    """Return the deviation of integers, booleans or strings, relative to the whole tensor's scale."""
    if not np.any(result != right):
        return Deviation(0.0, 0.0, 0.0)
    gap = max(
        max_abs_difference(result, right.astype(result.dtype)), 1.0
    )  # integers beyond 2**53 may be equal as doubles
    return Deviation(gap, gap / scale if scale else math.inf, gap)
