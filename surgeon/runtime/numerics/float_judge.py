"""Compare two results of one float tensor with a reference, element by element, with a limit for each."""

import math

import ml_dtypes
import numpy as np

from surgeon.runtime.numerics.allowances import (
    Compared,
    JudgeSettings,
    fixed_allowances,
    kernel_error,
    measured_allowances,
    rounding_by_class,
)
from surgeon.runtime.numerics.array_comparison import is_meaningful, max_relative, name_of_dtype, only
from surgeon.runtime.numerics.magnitude_classes import MagnitudeClasses
from surgeon.runtime.numerics.sensitivity import Sensitivity, round_to_dtype, spacing, widen_narrow_float
from surgeon.runtime.numerics.tensor_error import Deviation, TensorError
from surgeon.text import format_beside_limit

# The largest share of the largest number that rounding may change in a tensor that can be judged.  Zeros instead of the
# result then still differ by more than rounding, although few other functions do.
_VISIBLE = 1 / 8
# The largest share of the largest number that kernel errors may have without hiding another function.  Rounding is
# measured and kernel errors are not, so this is a quarter of the share for rounding.
HIDING = 1 / 32
_KINDS = ("finite", "NaN", "inf", "-inf")
_FINITE, _NAN, _INF, _MINUS_INF = range(len(_KINDS))


class FloatJudge:
    """Two results of one tensor, its reference, and the limits, as flat float64 arrays of the same shape.

    reference: None if the original serves as one.  The attributes are intermediate results that several checks share.
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
        self.kind = _kinds(round_to_dtype(self.right, self.dtype))  # of the reference, rounded to the output's dtype
        finite = self.kind == _FINITE
        self.magnitude = np.abs(only(self.right, finite))
        self.classes = MagnitudeClasses(self.magnitude.astype(np.float64, copy=False), finite)
        self.both = finite & (self.kind_b == _FINITE)
        self.gap, self.gap_a = self._gap(self.b, self.both), self._gap(self.a, finite & (self.kind_a == _FINITE))
        by_units = asked.units * moved.smooth, moved.jumps, asked.units * moved.inputs
        flat = Sensitivity(*map(self._flat, by_units))
        compared = Compared(self.classes, self.gap_a, countable=self._countable(), moved=flat)
        rounding = rounding_by_class(compared, asked)
        fixed = tuple(fixed_allowances(compared, asked))
        measured = tuple(measured_allowances(compared, asked, rounding))
        self.rounding = self.classes.spread(rounding)
        self.tolerance = np.asarray(sum(one.size for one in fixed))
        self.allowances, self.allowed = (*fixed, *measured), self.tolerance + sum(one.size for one in measured)

    def _flat(self, array: np.ndarray) -> np.ndarray:
        """One value for each element; a scalar stays a scalar."""
        return np.broadcast_to(array, self.shape).ravel().astype(np.float64) if array.ndim else array

    def _countable(self) -> np.ndarray:
        """A mask of the distinguishable integers: beyond some size, all floats are integers.

        With a reference in higher precision, all integers are distinguishable.  The mask is all False if output or
        original contain other numbers than integers.
        """
        finite = self.right[self.kind == _FINITE]
        if not finite.size or np.any(self.gap_a) or np.any(finite != np.round(finite)):
            return np.zeros(self.a.shape, np.bool_)
        if self.independent is not None:
            return np.ones(self.a.shape, np.bool_)
        return np.asarray(self.magnitude <= 2 / float(self.limits.eps))

    def judge(self, name: str) -> TensorError:
        """Return the verdict on tensor `name`."""
        near = self.gap_a + self.tolerance  # the error of the original, plus rounding
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
            limit_over_scale=_ratio(self._at(self.allowed, None), self._at(self.magnitude, None)),
            because=self._because(),
            is_informative=self._is_informative(),
            original_error=float(self.gap_a.max(initial=0.0, where=exempt & self._doubted())),
            may_hide=bool(np.any(blurring)),
            is_hidden=bool(np.any(self.both & ~exempt & (blurring > 0) & (self.gap > self.allowed - blurring))),
            place=int(np.argmax(unlike | turned)) if np.any(unlike | turned) else place,
        )

    def _because(self) -> str:
        """The reason for the largest allowance of the largest number."""
        sizes = [self._at(np.broadcast_to(one.size, self.gap.shape), None) for one in self.allowances]
        return self.allowances[int(np.argmax(sizes))].because

    def _blurring(self) -> np.ndarray:
        """The absolute error of kernels if it is a large share of the largest number, else 0."""
        asked = self.asked
        by_kernels = np.zeros(1) if asked.shared_error or asked.is_own else kernel_error(asked)
        return np.where(by_kernels > HIDING * self._at(self.magnitude, None), by_kernels, 0.0)

    def _doubted(self) -> np.ndarray:
        """A mask of elements at which both original and result are off by more than rounding explains."""
        if self.independent is None or self.asked.overflowing:
            return np.zeros(self.a.shape, np.bool_)
        largest = self._at(self.magnitude, None)
        by_kernels = kernel_error(self.asked) if self.asked.shared_error else 0.0
        return np.asarray((self.gap_a > _VISIBLE * largest) & (self.gap > self.allowed + by_kernels) & (largest > 0))

    def _furthest(self, among: np.ndarray) -> int | None:
        """The element closest to its limit, or furthest beyond it; None if none differs."""
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
        """The value at an element; at the largest element if `place` is None; 0 without elements."""
        if not values.size:
            return 0.0
        return float(values[int(self.magnitude.argmax()) if place is None else place])

    def _is_informative(self) -> bool:
        """Whether rounding leaves enough of the largest numbers to judge."""
        largest = self._at(self.magnitude, None)
        return not largest or self._at(self.rounding, None) <= _VISIBLE * largest

    def _gap(self, result: np.ndarray, both: np.ndarray) -> np.ndarray:
        """Return |result - reference|, and 0 unless both are finite."""
        return np.asarray(np.abs(only(result, both) - only(self.right, both)))

    def _unlike(self) -> np.ndarray:
        """A mask of elements whose kind (NaN, infinity or finite) is wrong."""
        unlike = ~self.both & (self.kind_b != self.kind)
        if np.any(unlike):
            unlike &= ~self._at_the_limit() & ~self._as_the_overflowed_original()
            if self.asked.overflowing:
                unlike &= np.isfinite(self.right) & ~self._lost() & ~self._overflowed_too()
                unlike &= ~self._overflowed_on_the_way()
        return np.asarray(unlike)

    def _lost(self) -> np.ndarray:
        """A mask of elements at which only the original overflowed on large inputs: any result is accepted there."""
        return np.asarray((self.kind == _FINITE) & (self.kind_a != _FINITE) & self.asked.overflowing)

    def _turned(self) -> np.ndarray:
        """A mask of zeros whose sign is not that of original and reference, if signs of zeros count."""
        if not self.asked.signed_zeros or self.dtype.kind == "c":
            return np.zeros(self.b.shape, np.bool_)
        zero = (self.a == 0) & (self.b == 0) & (self.right == 0)
        signs = [np.signbit(numbers) for numbers in (self.a, self.b, self.right)]
        return np.asarray(zero & (signs[0] == signs[2]) & (signs[0] != signs[1]))

    def _zero_sign_message(self, turned: np.ndarray) -> str | None:
        """A clause on zeros of another sign; None without any."""
        if not np.any(turned):
            return None
        signs = ("0", "-0") if np.signbit(self.a[turned][0]) else ("-0", "0")
        count = f"({np.count_nonzero(turned)} of {self.b.size} elements)"
        return f"is {signs[0]} instead of {signs[1]} {count}, and a later node divides by it"

    def _at_the_limit(self) -> np.ndarray:
        """A mask of elements at which one of result and reference is just below the dtype's largest number, one above.

        Excluded is the case that the largest number itself is right and no input is large: there a bound replaces
        infinity.  In float64, this may be a kernel's bound that the reference has too: a Clip without bounds.
        """
        if self.dtype.kind == "c":
            return np.zeros(self.b.shape, np.bool_)
        finite = np.isfinite(self.right)
        limit, (relative, absolute) = float(self.limits.max), self.asked.tolerance
        allowed = np.maximum(self.allowed, absolute + relative * limit)
        beyond = ((self.kind_b == _INF) & (self.right > 0)) | ((self.kind_b == _MINUS_INF) & (self.right < 0))
        may_bound = not self.asked.overflowing and self.dtype.itemsize < 8
        is_bound = (np.abs(self.right) == limit) & (self.a == self.right) & may_bound
        over = beyond & finite & (np.abs(self.right) + allowed > limit) & ~is_bound
        under = (self.kind_b == _FINITE) & finite & (np.abs(self.b - self.right) <= allowed)
        return np.asarray(over | under)

    def _as_the_overflowed_original(self) -> np.ndarray:
        """A mask of elements at which the original's kind is not the reference's, but the result's is the original's.

        Infinity is also accepted if the original is NaN and the reference finite: 1e-45 / 0 instead of 0 / 0.
        """
        no_worse = (self.kind == _FINITE) & (self.kind_a == _NAN) & (self.kind_b != _FINITE)
        lost = (self.kind_a != self.kind) & ((self.kind_b == self.kind_a) | no_worse)
        own, (relative, absolute) = np.abs(np.where(self.kind_a == _FINITE, self.a, 0)), self.asked.tolerance
        near = np.abs(self.b - self.a) <= self.allowed + absolute + relative * own
        return np.asarray(lost & ((self.kind_a != _FINITE) | near))

    def _overflowed_too(self) -> np.ndarray:
        """A mask of elements at which one of result and original is NaN, the other infinite.

        Intermediate infinities may cancel.  A sum that overflows keeps the infinity that it reached first, which
        depends on the order of its terms.
        """
        endless, own = ((kind == _INF) | (kind == _MINUS_INF) for kind in (self.kind_b, self.kind_a))
        nan = (self.kind_b == _NAN) & own
        infinite = ((self.kind_a == _NAN) | (own & (self.asked.terms > 1))) & endless
        return np.asarray(nan | (infinite & (self.kind != _NAN)))

    def _overflowed_on_the_way(self) -> np.ndarray:
        """A mask of results so large that their factors may overflow early in another order."""
        if self.dtype.kind == "c":
            return np.zeros(self.b.shape, np.bool_)
        above = (self.kind_b == _INF) & (self.right > 0)
        below = (self.kind_b == _MINUS_INF) & (self.right < 0)
        return np.asarray((above | below) & (np.abs(self.right) >= math.sqrt(float(self.limits.max))))

    def _kind_message(self, unlike: np.ndarray) -> str | None:
        """A clause on the most frequent difference of NaN, infinity and finite numbers; None without any."""
        if not np.any(unlike):
            return None
        cases = np.stack([self.kind_b[unlike], self.kind_a[unlike], self.kind[unlike]], axis=1)
        found, counts = np.unique(cases, axis=0, return_counts=True)
        b, a, right = (_KINDS[kind] for kind in found[counts.argmax()])
        count = f"({counts.max()} of {self.b.size} elements)"
        if a == right:
            return f"is {b} instead of {a} {count}"
        return f"is {b}, the original is {a}, and the {self.independent} reference is {right} {count}"

    def _distance_message(self, far: np.ndarray) -> str | None:
        """A clause on the worst of the elements beyond their limits; None without any."""
        place = self._furthest(far) if np.any(far) else None
        if place is None:
            return None
        scale = self.classes.spread(self.classes.scale)[place]
        gap, allowed = format_beside_limit(self.gap[place], self.allowed[place])
        numbers = f"by {gap} (limit {allowed}, values up to {scale:.3g})"
        if self.independent is None:
            return f"differs from the original {numbers}"
        kind = self.kind_a[place]
        own = f"differs by {self.gap_a[place]:.3g}" if kind == _FINITE else f"is {_KINDS[kind]}"
        return f"differs from the {self.independent} reference {numbers}; the original {own}"

    def _deviation(self, gap: np.ndarray) -> Deviation:
        """The largest of these distances from the reference, in all three measures."""
        return deviation(gap, self.magnitude, self.dtype)


def deviation(gap: np.ndarray, magnitude: np.ndarray, dtype: np.dtype) -> Deviation:
    """The largest of these distances from numbers of these magnitudes, in all three measures."""
    scale = magnitude.max(initial=0.0)
    ulps = float((gap / spacing(magnitude, dtype)).max(initial=0.0, where=is_meaningful(magnitude, scale)))
    return Deviation(float(gap.max(initial=0.0)), max_relative(gap, magnitude, scale), ulps)


def _ratio(gap: float, allowed: float) -> float:
    """Return gap / allowed; 0 without a gap, or if the limit is infinite."""
    if gap == 0 or allowed == math.inf:
        return 0.0
    return gap / allowed if allowed else math.inf


def _kinds(array: np.ndarray) -> np.ndarray:
    """Return the index in `_KINDS` of each element.  Complex infinities have no sign."""
    if np.isfinite(array).all():
        return np.full(array.shape, _FINITE, np.int8)
    kinds = np.where(np.isnan(array), _NAN, _FINITE)
    infinite = np.isinf(array) & (kinds != _NAN)
    negative = array.real < 0 if array.dtype.kind != "c" else np.zeros(array.shape, np.bool_)
    return np.where(infinite, np.where(negative, _MINUS_INF, _INF), kinds)
