"""Compare two results of one float tensor with a reference, element by element."""

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from surgeon.runtime.numerics.array_comparison import name_of_dtype, tolerance
from surgeon.runtime.numerics.magnitude_classes import MagnitudeClasses
from surgeon.runtime.numerics.sensitivity import Sensitivity, round_to_dtype, spacing, widen_narrow_float
from surgeon.runtime.numerics.tensor_error import Deviation, TensorError
from surgeon.text import format_beside_limit

# A result may err by this many times what the reference moves by, or the original errs by: each is one sample of how
# far rounding can carry what is computed here.
ROUNDING_FACTOR = 4.0
_OWN = 16.0  # times what the reference moves by: an original that errs by more does not err by rounding
_ROUNDING = 1e-2  # the part of the scale up to which an error on large inputs may be rounding; beyond, it is overflow
_VISIBLE = 1 / 8  # the part of the largest number that rounding may take while something is left to be judged
HIDING = 1 / 32  # the part of it that kernels may err by while they cannot hide another function
COUNTED = 0.25  # allowed difference of integers that nothing rounds
_MEANINGFUL = 1e-3  # elements below this part of the scale are left out of the relative errors
_KINDS = ("finite", "NaN", "inf", "-inf")
_FINITE, _NAN, _INF, _MINUS_INF = range(4)


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """What may differ on purpose, and what else is known of a run."""

    rtol: float
    """Relative tolerance."""
    atol: float
    """Absolute tolerance."""
    is_own: bool = False
    """Whether the user set the tolerance."""
    intended_error: float = 0.0
    """How far a rule changes numbers on purpose."""
    overflowing: bool = False
    """Whether inputs are finite and large."""
    sum_ulps: float = 0.0
    """Units in the last place by which the longest sum may err."""
    adds_up: bool = False
    """Whether there is a sum."""
    absolute_error: float | np.ndarray = 0.0
    """Absolute error of kernels, for all elements or for each."""
    shared_error: bool = False
    """Whether both results come from the same kernels, so that their absolute errors cancel."""
    signed_zeros: bool = False
    """Whether 0 and -0 differ."""

    @classmethod
    def of(
        cls,
        dtype: np.dtype,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        slack: float = 0.0,
        overflowing: bool = False,
        terms: int = 1,
        by_ones: float | np.ndarray = 0.0,
        errs_alike: bool = False,
        has_signs: bool = False,
    ) -> "JudgeSettings":
        """The settings for a tensor of a dtype; the parameters are those of `tensor_judge.judge_tensor`."""
        relative, absolute = tolerance(name_of_dtype(dtype), rtol, atol)
        return cls(
            relative,
            absolute,
            is_own=rtol is not None or atol is not None,
            intended_error=slack,
            overflowing=overflowing,
            sum_ulps=_summing(dtype, terms),
            adds_up=terms > 1,
            absolute_error=by_ones,
            shared_error=errs_alike,
            signed_zeros=has_signs,
        )


class FloatJudge:
    """Two results of one tensor, its reference, and what is allowed; one shape, flat, in float64.

    The reference is None where the original serves as one.  The attributes are intermediate results that several of the
    checks read, so they stay together.
    """

    def __init__(
        self,
        original: np.ndarray,
        rewritten: np.ndarray,
        reference: np.ndarray | None,
        moved: Sensitivity,
        asked: JudgeSettings,
    ) -> None:
        self.dtype, self.asked, self.shape = original.dtype, asked, original.shape
        self.limits = ml_dtypes.finfo(self.dtype)
        self.independent = None if reference is None else name_of_dtype(reference.dtype)
        right = original if reference is None else reference
        wide = np.result_type(np.complex128 if self.dtype.kind == "c" else np.float64, widen_narrow_float(right).dtype)
        self.a, self.b, self.right = (
            widen_narrow_float(array).astype(wide).ravel() for array in (original, rewritten, right)
        )
        self.kind_a, self.kind_b = _kinds(self.a), _kinds(self.b)
        self.kind = _kinds(round_to_dtype(self.right, self.dtype))  # the reference's, as the output's dtype holds it
        finite = self.kind == _FINITE
        self.magnitude = np.abs(_only(self.right, finite))
        self.classes = MagnitudeClasses(self.magnitude.astype(np.float64, copy=False), finite)
        self.both = finite & (self.kind_b == _FINITE)
        self.gap, self.gap_a = self._gap(self.b, self.both), self._gap(self.a, finite & (self.kind_a == _FINITE))
        self.smooth, self.inputs, self.jumps = map(self._flat, (moved.smooth, moved.inputs, moved.jumps))
        self.tolerance, rounding = self._tolerance(), self._rounding()  # of elements, and of classes
        self.rounding = self.classes.spread(rounding)
        self.allowed = (
            self.tolerance + self.classes.spread(rounding + self._conditioned()) + ROUNDING_FACTOR * self.jumps
        )

    def _flat(self, array: np.ndarray) -> np.ndarray:
        """One value for each element; one value for all stays one."""
        return np.broadcast_to(array, self.shape).ravel().astype(np.float64) if array.ndim else array

    def _tolerance(self) -> np.ndarray:
        """The allowed difference however well conditioned the computation is: a part of the scale of similar elements.

        A user's tolerance is a part of the scale of the whole tensor, as documented.
        """
        asked, classes = self.asked, self.classes
        if asked.is_own:
            large = classes.largest
            return np.full(self.right.shape, asked.atol + asked.rtol * large + asked.intended_error * (1 + large))
        slack = classes.spread(asked.intended_error * (1 + classes.scale))
        by_kernels = 0.0 if asked.shared_error else self._of_one()
        found = np.asarray(class_tolerance(classes, asked, self.dtype) + slack + by_kernels)
        if asked.intended_error or not self._counts():
            return found
        return np.where(self._distinguishable(), np.minimum(found, COUNTED), found)

    def _of_one(self) -> np.ndarray:
        """The absolute error of kernels."""
        return kernel_error(self.asked, self.dtype)

    def _counts(self) -> bool:
        """Whether the output and the original hold only integers, so that none of them is rounded."""
        whole = self.right[self.kind == _FINITE]
        return bool(whole.size) and not np.any(self.gap_a) and bool(np.all(whole == np.round(whole)))

    def _distinguishable(self) -> np.ndarray:
        """Where an integer differs from a rounded number: all floats beyond some size are integers.

        A reference in higher precision differs there too.
        """
        if self.independent is not None:
            return np.ones(self.a.shape, np.bool_)
        return np.asarray(self.magnitude <= 2 / float(self.limits.eps))

    def _rounding(self) -> np.ndarray:
        """How far rounding moves similar numbers, from moves of the reference and errors of the original."""
        asked, classes = self.asked, self.classes
        moved = classes.largest_of(self.smooth)
        errs = np.where(self.jumps > 0, 0.0, self.gap_a) if np.any(self.jumps) else self.gap_a
        own = np.minimum(classes.largest_of(errs), _OWN * moved) if np.any(moved) else moved
        if asked.overflowing:
            own = np.where(own <= _ROUNDING * classes.scale, own, 0.0)
        summed = asked.sum_ulps * classes.largest_of(self.inputs)
        return np.asarray(np.maximum(ROUNDING_FACTOR * np.maximum(moved, own), summed))

    def _conditioned(self) -> np.ndarray:
        """The same part of the scale of the terms: where terms cancel, the result is small beside them."""
        if self.asked.is_own:
            return np.zeros(self.classes.scale.shape)
        terms = self.classes.largest_of(self.smooth) / float(self.limits.eps)
        return np.asarray(self.asked.rtol * np.minimum(self.classes.usual, terms))

    def judge(self, name: str) -> TensorError:
        """Return the verdict on tensor `name`."""
        near = self.gap_a + self.tolerance  # rounding on top of what the original errs by there
        beyond = (self.gap > self.allowed) & (self.gap <= near)
        exempt = self.both & ((self.gap <= self.gap_a) | beyond | self._lost())
        far = self.both & ~exempt & ~(self.gap <= self.allowed)
        unlike = self._unlike()
        turned = self._turned()
        messages = self._kind_message(unlike), self._zero_sign_message(turned), self._distance_message(far)
        why = ", and ".join(filter(None, messages))
        place = self._furthest(self.both & ~exempt)
        blurring = self._blurring()
        severity = 0.0 if place is None else _ratio(float(self.gap[place]), float(self.allowed[place]))
        return TensorError(
            name=name,
            dtype=name_of_dtype(self.dtype),
            original=None if self.independent is None else self._deviation(self.gap_a),
            rewritten=self._deviation(self.gap),
            scale=self._at(self.classes.spread(self.classes.scale), place),
            allowed=self._at(self.allowed, place),
            ok=not why,
            why=why,
            severity=math.inf if np.any(unlike | turned) else severity,
            gap=self._at(self.gap, place),
            is_informative=self._is_informative(),
            original_error=float(self.gap_a.max(initial=0.0, where=exempt & self._doubted())),
            may_hide=bool(np.any(blurring)),
            is_hidden=bool(np.any(self.both & ~exempt & (blurring > 0) & (self.gap > self.allowed - blurring))),
        )

    def _blurring(self) -> np.ndarray:
        """Where the absolute error of kernels is a large part of the largest number, and how large it is."""
        asked = self.asked
        by_kernels = np.zeros(1) if asked.shared_error or asked.is_own else self._of_one()
        return np.where(by_kernels > HIDING * self._at(self.magnitude, None), by_kernels, 0.0)

    def _doubted(self) -> np.ndarray:
        """Where both original and result err by more of the largest number than rounding explains."""
        if self.independent is None or self.asked.overflowing:
            return np.zeros(self.a.shape, np.bool_)
        largest, by_kernels = self._at(self.magnitude, None), self._of_one() if self.asked.shared_error else 0.0
        return np.asarray((self.gap_a > _VISIBLE * largest) & (self.gap > self.allowed + by_kernels) & (largest > 0))

    def _furthest(self, among: np.ndarray) -> int | None:
        """The element closest to, or furthest beyond, what is allowed; None where none differs."""
        part = np.full(self.gap.shape, -1.0)
        with np.errstate(all="ignore"):
            np.divide(self.gap, self.allowed, out=part, where=among & (self.gap > 0))
        if not part.size:
            return None
        if np.isnan(part[part.argmax()]):
            part[np.isnan(part)] = 0.0
        place = int(part.argmax())
        return place if part[place] >= 0 else None

    def _at(self, values: np.ndarray, place: int | None) -> float:
        """One of these values, that of the largest element if none is decisive; 0 without elements."""
        if not values.size:
            return 0.0
        return float(values[int(self.magnitude.argmax()) if place is None else place])

    def _is_informative(self) -> bool:
        """Whether rounding leaves enough of the largest numbers to judge."""
        largest = self._at(self.magnitude, None)
        return not largest or self._at(self.rounding, None) <= _VISIBLE * largest

    def _gap(self, result: np.ndarray, both: np.ndarray) -> np.ndarray:
        """Return |result - reference| where both are finite, else 0."""
        return np.asarray(np.abs(_only(result, both) - _only(self.right, both)))

    def _unlike(self) -> np.ndarray:
        """Where NaN, infinity or a finite number is not what it should be."""
        unlike = ~self.both & (self.kind_b != self.kind)
        if np.any(unlike):
            unlike &= ~self._at_the_limit() & ~self._as_the_overflowed_original()
            if self.asked.overflowing:
                unlike &= np.isfinite(self.right) & ~self._lost() & ~self._overflowed_too()
                unlike &= ~self._overflowed_on_the_way()
        return np.asarray(unlike)

    def _lost(self) -> np.ndarray:
        """Where the original overflowed on large inputs and the reference did not: any result is accepted there."""
        return np.asarray((self.kind == _FINITE) & (self.kind_a != _FINITE) & self.asked.overflowing)

    def _turned(self) -> np.ndarray:
        """Where a zero has another sign than in original and reference, and signs of zeros count."""
        if not self.asked.signed_zeros or self.dtype.kind == "c":
            return np.zeros(self.b.shape, np.bool_)
        zero = (self.a == 0) & (self.b == 0) & (self.right == 0)
        signs = [np.signbit(numbers) for numbers in (self.a, self.b, self.right)]
        return np.asarray(zero & (signs[0] == signs[2]) & (signs[0] != signs[1]))

    def _zero_sign_message(self, turned: np.ndarray) -> str | None:
        """A sentence on zeros of another sign; None for none."""
        if not np.any(turned):
            return None
        signs = ("0", "-0") if np.signbit(self.a[turned][0]) else ("-0", "0")
        count = f"({np.count_nonzero(turned)} of {self.b.size} elements)"
        return f"is {signs[0]} where the original is {signs[1]} {count}, and something behind it divides by that"

    def _at_the_limit(self) -> np.ndarray:
        """Where one of result and reference is just below the dtype's largest number, the other just above.

        Not where the largest number itself is right and no input is large: there a bound holds infinity back.  In
        float64 it may be a kernel's bound, which the reference has too: a Clip without one.
        """
        if self.dtype.kind == "c":
            return np.zeros(self.b.shape, np.bool_)
        finite = np.isfinite(self.right)
        limit = float(self.limits.max)
        allowed = np.maximum(self.allowed, self.asked.atol + self.asked.rtol * limit)
        beyond = ((self.kind_b == _INF) & (self.right > 0)) | ((self.kind_b == _MINUS_INF) & (self.right < 0))
        may_bound = not self.asked.overflowing and self.dtype.itemsize < 8
        is_bound = (np.abs(self.right) == limit) & (self.a == self.right) & may_bound
        over = beyond & finite & (np.abs(self.right) + allowed > limit) & ~is_bound
        under = (self.kind_b == _FINITE) & finite & (np.abs(self.b - self.right) <= allowed)
        return np.asarray(over | under)

    def _as_the_overflowed_original(self) -> np.ndarray:
        """Where the original is not of the reference's kind, and the result equals the original's kind.

        Infinity is accepted where the original is NaN and the reference finite: 1e-45 / 0 where the original has 0 / 0.
        """
        no_worse = (self.kind == _FINITE) & (self.kind_a == _NAN) & (self.kind_b != _FINITE)
        lost = (self.kind_a != self.kind) & ((self.kind_b == self.kind_a) | no_worse)
        own = np.abs(np.where(self.kind_a == _FINITE, self.a, 0))
        near = np.abs(self.b - self.a) <= self.allowed + self.asked.atol + self.asked.rtol * own
        return np.asarray(lost & ((self.kind_a != _FINITE) | near))

    def _overflowed_too(self) -> np.ndarray:
        """Where one of result and original is NaN, the other infinite: intermediate infinities may cancel.

        A sum of many terms that overflows stays at the end that it reached first, which depends on their order.
        """
        endless, own = ((kind == _INF) | (kind == _MINUS_INF) for kind in (self.kind_b, self.kind_a))
        nan = (self.kind_b == _NAN) & own
        infinite = ((self.kind_a == _NAN) | (own & self.asked.adds_up)) & endless
        return np.asarray(nan | (infinite & (self.kind != _NAN)))

    def _overflowed_on_the_way(self) -> np.ndarray:
        """Where a result is so large that its factors overflow early in another order."""
        if self.dtype.kind == "c":
            return np.zeros(self.b.shape, np.bool_)
        above = (self.kind_b == _INF) & (self.right > 0)
        below = (self.kind_b == _MINUS_INF) & (self.right < 0)
        return np.asarray((above | below) & (np.abs(self.right) >= math.sqrt(float(self.limits.max))))

    def _kind_message(self, unlike: np.ndarray) -> str | None:
        """A sentence on NaN, infinity and finite numbers that differ, in the commonest case; None for none."""
        if not np.any(unlike):
            return None
        cases = np.stack([self.kind_b[unlike], self.kind_a[unlike], self.kind[unlike]], axis=1)
        found, counts = np.unique(cases, axis=0, return_counts=True)
        b, a, right = (_KINDS[kind] for kind in found[counts.argmax()])
        count = f"({counts.max()} of {self.b.size} elements)"
        if a == right:
            return f"is {b} where the original is {a} {count}"
        return f"is {b} where the original is {a} and the {self.independent} reference {right} {count}"

    def _distance_message(self, far: np.ndarray) -> str | None:
        """A sentence on the worst of the elements that are too far; None for none."""
        place = self._furthest(far) if np.any(far) else None
        if place is None:
            return None
        scale = self.classes.spread(self.classes.scale)[place]
        gap, allowed = format_beside_limit(self.gap[place], self.allowed[place])
        numbers = f"by {gap} where {allowed} is allowed (scale {scale:.3g})"
        if self.independent is None:
            return f"differs from the original {numbers}"
        kind = self.kind_a[place]
        own = f"differs by {self.gap_a[place]:.3g}" if kind == _FINITE else f"is {_KINDS[kind]}"
        return f"differs from the {self.independent} reference {numbers}; the original {own} there"

    def _deviation(self, gap: np.ndarray) -> Deviation:
        """Return the largest of these distances from the reference, in all three measures."""
        return deviation(gap, self.magnitude, self.dtype)


def _summing(dtype: np.dtype, terms: int) -> float:
    """The error of a sum in units in the last place of its terms, added in any order.

    It is the square root of their number, with near certainty (Higham and Mary, A New Approach to Probabilistic
    Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019).  It is 0 in half precision, which kernels add up in
    float32.
    """
    return math.sqrt(terms) if dtype.itemsize >= 4 else 0.0


def deviation(gap: np.ndarray, magnitude: np.ndarray, dtype: np.dtype) -> Deviation:
    """The largest of these distances in all three measures, from numbers of these magnitudes."""
    meaningful = magnitude >= _MEANINGFUL * magnitude.max(initial=0.0)
    relative = float((gap / magnitude).max(initial=0.0, where=meaningful & (magnitude > 0)))
    ulps = float((gap / spacing(magnitude, dtype)).max(initial=0.0, where=meaningful))
    return Deviation(float(gap.max(initial=0.0)), relative, ulps)


def class_tolerance(classes: MagnitudeClasses, asked: JudgeSettings, dtype: np.dtype) -> np.ndarray:
    """The allowed rounding of each element, as a part of the scale of similar ones."""
    limits = ml_dtypes.finfo(dtype)
    rounding = ROUNDING_FACTOR * float(limits.eps) * classes.usual
    return classes.spread(np.maximum(asked.rtol * classes.scale, rounding) + _below_normal(limits))


def kernel_error(asked: JudgeSettings, dtype: np.dtype) -> np.ndarray:
    """The absolute error that kernels may have, for all elements or for each."""
    unit = max(asked.atol, float(ml_dtypes.finfo(dtype).eps))
    return np.asarray(ROUNDING_FACTOR * unit * np.asarray(asked.absolute_error, np.float64)).ravel()


def _only(array: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The chosen elements, and 0 for the others."""
    return array if chosen.all() else np.where(chosen, array, 0)


def _below_normal(limits: ml_dtypes.finfo) -> float:
    """The allowed difference below the smallest normal number, where some kernels flush to zero.

    Kernels for float16 compute in float32, and round to the subnormal numbers of float16.
    """
    flushed = float(limits.tiny) if int(limits.maxexp) >= 128 else 0.0
    return ROUNDING_FACTOR * float(limits.smallest_subnormal) + flushed


def _ratio(gap: float, allowed: float) -> float:
    """Return gap / allowed; 0 for no gap at all, or where anything is allowed."""
    if gap == 0 or allowed == math.inf:
        return 0.0
    return gap / allowed if allowed else math.inf


def _kinds(array: np.ndarray) -> np.ndarray:
    """Return, for each element, which of `_KINDS` it is.  Complex infinities have no sign."""
    if np.isfinite(array).all():
        return np.full(array.shape, _FINITE, np.int8)
    kinds = np.where(np.isnan(array), _NAN, _FINITE)
    infinite = np.isinf(array) & (kinds != _NAN)
    negative = array.real < 0 if array.dtype.kind != "c" else np.zeros(array.shape, np.bool_)
    return np.where(infinite, np.where(negative, _MINUS_INF, _INF), kinds)
