"""Judge results that are close to the original's, without a reference in higher precision.

Nine of ten results are close.  Such a result passes, because it is as right or as wrong as the original.  The reference
and the sensitivity of a computation cost several runs, so only results that do not pass here need them.
"""

from dataclasses import replace

import numpy as np

from surgeon.runtime.numerics.allowances import COUNTED, JudgeSettings, allowed_rounding, kernel_error
from surgeon.runtime.numerics.array_comparison import (
    TOLERANCES,
    dtype_name,
    max_abs_difference,
    mismatch_reason,
    non_finite_mismatch,
    only,
)
from surgeon.runtime.numerics.float_judge import HIDING, deviation
from surgeon.runtime.numerics.magnitude_classes import MagnitudeClasses
from surgeon.runtime.numerics.sensitivity import widen_narrow_float
from surgeon.runtime.numerics.tensor_error import Deviation, TensorError


def judge_close(name: str, original: np.ndarray, rewritten: np.ndarray, asked: JudgeSettings) -> TensorError | None:
    """The verdict on a result that passes because it is close to the original; None for any other result.

    Equal bits pass.  Floats pass within the dtype's or the user's tolerance.  NaN and infinity must be equal, and signs
    of zeros if they count.  If all numbers are integers, they may differ by a quarter.

    The severity is an upper bound: it ignores all other allowances, and the original is the reference.
    """
    dtype = dtype_name(original)
    if mismatch_reason(original, rewritten) is not None:
        return None
    if dtype not in TOLERANCES:
        if not _same_bits(original, rewritten) and np.any(original != rewritten):
            return None
        numeric = dtype not in ("string", "bool")
        return _equal(name, dtype, max_abs_difference(original, np.zeros_like(original)) if numeric else 1.0)
    a, b = widen_narrow_float(original).ravel(), widen_narrow_float(rewritten).ravel()
    with np.errstate(all="ignore"):
        finite = np.isfinite(a)
        magnitude = np.abs(only(a, finite))
        scale = float(magnitude.max(initial=0.0))
        may_err = not (asked.shared_error or asked.is_own)
        may_hide = may_err and bool(np.any(kernel_error(asked) > HIDING * scale))
        equal = _equal(name, dtype, scale, asked, may_hide=may_hide)
        if _same_bits(original, rewritten):
            return equal
        if a.dtype.kind == "c" or not _same_kinds(a, b, finite, asked.signed_zeros):
            return None
        gap = np.abs(only(a, finite) - only(b, finite))
        if not asked.is_own and gap.max(initial=0.0) > COUNTED and np.array_equal(magnitude, np.round(magnitude)):
            return None  # they may be counts, which no step rounds
        limit = allowed_rounding(MagnitudeClasses(magnitude.astype(np.float64), finite), asked).size
        if not (gap <= limit).all():
            return None
        part = np.divide(gap, limit, out=np.zeros_like(gap), where=gap > 0)
        place = int(part.argmax())
        return replace(
            equal,
            rewritten=deviation(gap, magnitude, original.dtype),
            allowed=float(limit[place]),
            severity=float(part[place]),
            gap=float(gap[place]),
            limit_over_scale=float(limit[magnitude.argmax()]) / scale if scale else 0.0,
        )


def _same_bits(original: np.ndarray, rewritten: np.ndarray) -> bool:
    """Whether two arrays of the same shape have the same bits; False for strings."""
    return original.dtype == rewritten.dtype != object and original.tobytes() == rewritten.tobytes()


def _same_kinds(a: np.ndarray, b: np.ndarray, finite: np.ndarray, has_signs: bool) -> bool:
    """Whether NaN, infinity by sign and, if `has_signs`, zeros by sign have the same indices."""
    if not (finite.all() and np.isfinite(b).all()) and non_finite_mismatch(a, b) is not None:
        return False
    zero = (a == 0) & (b == 0) if has_signs else np.zeros(0, np.bool_)
    return not np.any(zero) or np.array_equal(np.signbit(a[zero]), np.signbit(b[zero]))


def _equal(
    name: str, dtype: str, scale: float, asked: JudgeSettings | None = None, *, may_hide: bool = False
) -> TensorError:
    """The verdict on an equal result.  asked: None for a dtype without a tolerance."""
    allowed = 0.0 if asked is None else asked.tolerance[0] * scale
    return TensorError(
        name=name,
        dtype=dtype,
        original=None,
        rewritten=Deviation(0.0, 0.0, 0.0),
        scale=scale,
        allowed=allowed,
        ok=True,
        why="",
        severity=0.0,
        may_hide=may_hide,
        limit_over_scale=allowed / scale if scale else 0.0,
        because=asked.reason if asked is not None and allowed else "",
    )
