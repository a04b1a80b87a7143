"""Judging one tensor of a rewritten region against a run of the original in higher precision.

The reference, not the original, is what is right: the original too errs, and a fused operator that errs less differs
from it.  What may a result differ by?  A tolerance of the scale of what is like it, and four times what the reference
itself moves by when its inputs, or what is rounded on the way, move by one unit in the last place: no form of an
ill-conditioned sum can do better.

A tensor may hold numbers of many magnitudes: scores beside the -3.4e38 that hides others, a bias beside a product.
Each is judged beside those of like magnitude, so that no large one hides what is wrong with a small one.
"""

import math

import numpy as np

from surgeon.runtime.numerics.array_comparison import (
    TOLERANCES,
    dtype_name,
    max_abs_difference,
    mismatch_reason,
    tolerance,
)
from surgeon.runtime.numerics.float_judge import ROUNDING_FACTOR, Allowance, FloatJudge
from surgeon.runtime.numerics.sensitivity import Sensitivity, difference
from surgeon.runtime.numerics.tensor_error import Deviation, TensorError, worst_error

__all__ = ["ROUNDING_FACTOR", "Deviation", "TensorError", "judge_tensor", "worst_error"]


def judge_tensor(
    name: str,
    original: np.ndarray,
    rewritten: np.ndarray,
    reference: np.ndarray | None,
    moved: Sensitivity | float,
    rtol: float | None = None,
    atol: float | None = None,
    slack: float = 0.0,
    *,
    overflowing: bool = False,
    terms: int = 1,
    by_ones: float | np.ndarray = 0.0,
    errs_alike: bool = False,
    has_signs: bool = False,
) -> TensorError:
    """Judge the rewritten region's result for tensor `name`.

    `reference` is the original's result in float64 or wider; None, or an array of another shape (where shapes hang on
    values), makes the original its own reference.  `moved` is what the reference moves by, or one number for all
    elements that move smoothly.  `rtol` and `atol` replace the dtype's own tolerance where given, of the scale of the
    whole tensor; `slack` is what the rule changes on purpose, of 1 and of the scale.
    `overflowing` says that the inputs are finite but large: where the reference is not finite, it overflowed too, and
    nothing is held against it (log(1 + exp(x)) does at 1e4, Softplus does not, and is right); where the original
    overflowed to infinity, the result may be NaN, and the other way round, where the reference is not NaN.

    `terms` says how many numbers the longest sum of the original adds up.  `by_ones`: above 0 where it holds functions
    that kernels compute to a part of one (Sigmoid of -20 may be 0), so that the dtype's absolute tolerance counts too,
    or this part of it, for all elements or for each.  `errs_alike`: both results come from the same of these, which
    then make no difference.  `has_signs`: zeros of one sign are no zeros of the other.

    A float passes within rtol * scale + noise of the reference, the scale being the largest magnitude of the elements
    like it (`Classes`), or no further from the reference than the original is there.  The noise is the larger of
    4 * max(moved, own) and sqrt(terms) * moved by the inputs, over the elements like it, `own` being the original's
    error there as far as rounding explains it, and rtol of what must have been added up to move so far; and for an
    element that jumped 4 times its own jump.  Whole numbers that the original hits do not differ by a part of one.
    NaN and infinity (as the output's dtype has them: 1e39 is infinite in float32) must be where the reference has them;
    where the original does not agree with it, as it overflowed inside, the result may do as either.
    Anything else must equal the original, or the reference, where that moved not by more than it moved.
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
        relative, absolute = tolerance(dtype, rtol, atol)
        is_own = rtol is not None or atol is not None
        summing = _summing(original.dtype, terms)
        kernels = (by_ones, errs_alike, has_signs)
        asked = Allowance(relative, absolute, is_own, slack, overflowing, summing, terms > 1, *kernels)
        return FloatJudge(original, rewritten, reference, moved=movement, asked=asked).judge(name)


def _summing(dtype: np.dtype, terms: int) -> float:
    """How many units in the last place of its terms a sum may err by, added up in any order.

    The square root of their number, with near certainty (Higham and Mary, A New Approach to Probabilistic Rounding
    Error Analysis, SIAM J. Sci. Comput. 41, 2019).  None in half precision, which kernels add up in float32.
    """
    return math.sqrt(terms) if dtype.itemsize >= 4 else 0.0


def _judge_exact(
    name: str,
    dtype: str,
    original: np.ndarray,
    rewritten: np.ndarray,
    reference: np.ndarray | None,
    movement: Sensitivity,
) -> TensorError:
    """Judge integers, booleans or strings: each equals the original's or the reference's, or jumps as that does."""
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
    )


def _exact_deviation(result: np.ndarray, right: np.ndarray, scale: float) -> Deviation:
    """Return the deviation of integers, booleans or strings; relative to the whole tensor's scale."""
    if not np.any(result != right):
        return Deviation(0.0, 0.0, 0.0)
    gap = max(
        max_abs_difference(result, right.astype(result.dtype)), 1.0
    )  # integers beyond 2**53 may be equal as doubles
    return Deviation(gap, gap / scale if scale else math.inf, gap)
