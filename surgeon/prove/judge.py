"""Judging one tensor of a rewritten region against a run of the original in higher precision.

The reference, not the original, is what is right: the original too errs, and a fused operator that errs less differs
from it.  What may a result differ by?  A tolerance of the tensor's scale, and four times what the reference itself
moves by when its inputs move by one unit in the last place, or what the original errs by: no form of an
ill-conditioned sum can do better.
"""

import math
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from surgeon.prove.compare import TOLERANCES, dtype_name, finite_gap, jsonable, tolerance

# A result may err by this many times what the reference moves by, or the original errs by: each is one sample of how
# far rounding can carry what is computed here.
ALLOWANCE = 4.0
_ROUNDING = 1e-2  # the part of the scale up to which an error on large inputs may be rounding; beyond, it is overflow
_MEANINGFUL = 1e-3  # elements below this part of the scale are left out of the relative errors
_KINDS = ("finite", "NaN", "inf", "-inf")
_FINITE, _NAN, _INF, _MINUS_INF = range(4)


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far one result is from the reference, over the elements where both are finite.

    `max_abs` is the largest |result - reference|; `max_rel` the largest of |result - reference| / |reference|, and
    `max_ulp` of |result - reference| in units in the last place (the distance between the output dtype's numbers at
    |reference|), both over elements of at least a thousandth of the scale: smaller ones may well be all error.
    Integers count in ones, strings and booleans 1 if any differs.  All are infinite for results that cannot be compared
    (another dtype or shape).
    """

    max_abs: float
    max_rel: float
    max_ulp: float

    def to_dict(self) -> dict[str, float | str]:
        """Return the fields as strict JSON can hold them."""
        return {name: jsonable(getattr(self, name)) for name in ("max_abs", "max_rel", "max_ulp")}


@dataclass(frozen=True, slots=True)
class TensorError:
    """One tensor judged on one set of inputs.

    `original` is None where there was no reference: the original then served as one.  `scale` is the largest finite
    magnitude of the reference, `allowed` what an element may differ from it by, `why` in words what is wrong (empty
    when nothing is).  `severity` says how far towards (or past 1: beyond) what is allowed the error goes, elements left
    out that are no further from the reference than the original; infinite where NaN, infinity, dtype or shape differ.
    """

    name: str
    dtype: str
    original: Deviation | None
    rewritten: Deviation
    scale: float
    allowed: float
    ok: bool
    why: str
    severity: float

    @property
    def telling(self) -> bool:
        """Whether zeros in place of the result would be found: false where all that is finite may differ so far."""
        return self.dtype not in TOLERANCES or self.allowed < self.scale

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as strict JSON can hold them; a number that is not finite is a string."""
        numbers = {name: jsonable(getattr(self, name)) for name in ("scale", "allowed", "severity")}
        deviations = {"original": self.original and self.original.to_dict(), "rewritten": self.rewritten.to_dict()}
        return {"name": self.name, "dtype": self.dtype, **deviations, **numbers, "ok": self.ok, "why": self.why}


def judge(
    name: str,
    original: np.ndarray,
    rewritten: np.ndarray,
    reference: np.ndarray | None,
    moved: float,
    rtol: float | None = None,
    atol: float | None = None,
    slack: float = 0.0,
    *,
    overflowing: bool = False,
    terms: int = 1,
) -> TensorError:
    """Judge the rewritten region's result for tensor `name`.

    `reference` is the original's result in float64 or wider; None, or an array of another shape (where shapes hang on
    values), makes the original its own reference.  `moved` is `change` of the reference under `moved_by_one_ulp`.
    `rtol` and `atol` replace the dtype's own tolerance where given; `slack` is added to both.
    `overflowing` says that the inputs are finite but large: where the reference is not finite, it overflowed too, and
    nothing is held against it (log(1 + exp(x)) does at 1e4, Softplus does not, and is right); where the original
    overflowed to infinity, the result may be NaN, and the other way round, where the reference is not NaN.

    `terms` says how many numbers the longest sum of the original adds up.

    A float passes within atol + slack + (rtol + slack) * scale + noise of the reference, or no further from it than the
    original is there.  The noise is the larger of 4 * max(moved, own) and sqrt(terms) * moved, `own` being the
    original's largest error (if `overflowing`, only up to a hundredth of the scale: more is no rounding).
    NaN and infinity (as the output's dtype has them: 1e39 is infinite in float32) must be where the reference has them;
    where the original does not agree with it, as it overflowed inside, the result may do as either.
    Anything else must equal the original, or the reference (a rounded tie may fall to the other side there).
    """
    dtype = dtype_name(original)
    if dtype_name(rewritten) != dtype:
        return _incomparable(name, dtype, f"is {dtype_name(rewritten)} where the original's is {dtype}")
    if original.shape != rewritten.shape:
        why = f"has shape {list(rewritten.shape)} where the original's is {list(original.shape)}"
        return _incomparable(name, dtype, why)
    if reference is not None and reference.shape != original.shape:
        reference = None
    with np.errstate(all="ignore"):
        if dtype not in TOLERANCES:
            return _judge_exact(name, dtype, original, rewritten, reference)
        relative, absolute = tolerance(dtype, rtol, atol)
        noise = _summing(original.dtype, terms) * moved
        found = _Floats(original, rewritten, reference, relative + slack, absolute + slack, moved, noise, overflowing)
        found.adds_up = terms > 1
        return found.judge(name)


def _summing(dtype: np.dtype, terms: int) -> float:
    """How many units in the last place of its terms a sum may err by, added up in any order.

    The square root of their number, with near certainty (Higham and Mary, A New Approach to Probabilistic Rounding
    Error Analysis, SIAM J. Sci. Comput. 41, 2019).  None in half precision, which kernels add up in float32.
    """
    return math.sqrt(terms) if dtype.itemsize >= 4 else 0.0


def worst(errors: Iterable[TensorError]) -> TensorError:
    """Return the error that is furthest beyond what is allowed.  Raises ValueError for none at all."""
    return max(errors, key=lambda error: (not error.ok, error.severity))


def moved_by_one_ulp(
    feeds: Mapping[str, np.ndarray], whole: Collection[str] = (), turn: int = 0, by: int = 1
) -> dict[str, np.ndarray]:
    """Return the inputs with every float moved to the next number of its dtype, up or down at random, each turn anew.

    by: how many such steps to go.

    Zeros, infinities and NaN stay.  So do whole numbers, which are often meant (masks, counts held as floats), but in
    inputs named in `whole`.  No number becomes infinite.
    """
    return {name: _moved(array, zlib.crc32(name.encode()) + turn, name in whole, by) for name, array in feeds.items()}


def change(reference: np.ndarray, nudged: np.ndarray, dtype: np.dtype | None = None) -> float:
    """Return the largest |reference - nudged|, over elements finite in both; 0 if the shapes differ.

    Given the output's own `dtype`, elements that are out of its range do not count either.
    """
    if reference.shape != nudged.shape:
        return 0.0
    if dtype is not None and dtype.name in TOLERANCES and dtype_name(reference) in TOLERANCES:
        with np.errstate(all="ignore"):
            held = np.isfinite(_held(reference, dtype)) & np.isfinite(_held(nudged, dtype))
        reference, nudged = np.where(held, reference, 0), np.where(held, nudged, 0)
    return finite_gap(reference, nudged)


def _moved(array: np.ndarray, seed: int, whole: bool, by: int) -> np.ndarray:
    if dtype_name(array) not in TOLERANCES or array.dtype.kind == "c":
        return array
    up = np.random.default_rng(seed).random(array.shape) < 0.5
    with np.errstate(all="ignore"):
        ends = np.where(up, np.inf, -np.inf)
        # Formats without infinity have NaN in its place, and nothing is next to that.
        limit = float(ml_dtypes.finfo(array.dtype).max)
        ends = np.clip(ends, -limit, limit).astype(array.dtype)
        stays = ~np.isfinite(array) | (array == 0)
        if not whole:
            stays |= array == np.round(array)
        moved = np.nextafter(array, ends)
        if by > 1:
            moved = np.asarray(array + by * (moved - array), dtype=array.dtype)
            stays |= ~np.isfinite(moved)
        return np.asarray(np.where(stays, array, moved), dtype=array.dtype)


def _incomparable(name: str, dtype: str, why: str) -> TensorError:
    """The error of a result of another dtype or shape."""
    infinite = Deviation(math.inf, math.inf, math.inf)
    return TensorError(name, dtype, None, infinite, 0.0, 0.0, False, why, math.inf)


def _judge_exact(
    name: str, dtype: str, original: np.ndarray, rewritten: np.ndarray, reference: np.ndarray | None
) -> TensorError:
    """Judge integers, booleans or strings: each element equals the original's or the reference's."""
    wrong = np.asarray(original != rewritten) & ~((original != original) & (rewritten != rewritten))
    if reference is not None:
        wrong &= np.asarray(reference != rewritten)
    numeric = dtype not in ("string", "bool")
    right = original if reference is None else reference
    scale = finite_gap(right, np.zeros_like(right)) if numeric else 1.0
    count = int(np.count_nonzero(wrong))
    gap = _exact_deviation(rewritten[wrong], original[wrong], 1.0).max_abs
    by = f", by {gap:.4g} at most" if numeric else ""
    why = f"differs in {count} of {original.size} elements{by}" if count else ""
    before = None if reference is None else _exact_deviation(original, right, scale)
    severity = math.inf if count else 0.0
    return TensorError(
        name, dtype, before, _exact_deviation(rewritten, right, scale), scale, 0.0, not why, why, severity
    )


def _exact_deviation(result: np.ndarray, right: np.ndarray, scale: float) -> Deviation:
    """Return the deviation of integers, booleans or strings; relative to the whole tensor's scale."""
    if not np.any(result != right):
        return Deviation(0.0, 0.0, 0.0)
    gap = max(finite_gap(result, right.astype(result.dtype)), 1.0)  # integers beyond 2**53 may be equal as doubles
    return Deviation(gap, gap / scale if scale else math.inf, gap)


class _Floats:
    """Two results of one tensor and its reference, flat and wide, and what is allowed."""

    def __init__(
        self,
        original: np.ndarray,
        rewritten: np.ndarray,
        reference: np.ndarray | None,
        rtol: float,
        atol: float,
        moved: float,
        noise: float,
        overflowing: bool,
    ) -> None:
        self.dtype = original.dtype
        self.limits = ml_dtypes.finfo(self.dtype)
        self.independent = None if reference is None else reference.dtype.name
        right = original if reference is None else reference
        wide = np.result_type(np.complex128 if self.dtype.kind == "c" else np.float64, _plain(right).dtype)
        self.a, self.b, self.right = (_plain(array).astype(wide).ravel() for array in (original, rewritten, right))
        self.kind_a, self.kind_b = _kinds(self.a), _kinds(self.b)
        self.kind = _kinds(_held(self.right, self.dtype))  # the reference's, as the output's dtype holds it
        finite = self.kind == _FINITE
        self.magnitude = np.abs(np.where(finite, self.right, 0))
        self.scale = float(self.magnitude.max(initial=0.0))
        self.both = finite & (self.kind_b == _FINITE)
        self.gap, self.gap_a = self._gap(self.b, self.both), self._gap(self.a, finite & (self.kind_a == _FINITE))
        self.rtol, self.atol, self.overflowing = rtol, atol, overflowing
        self.adds_up = False  # whether each number is a sum of many
        own = float(self.gap_a.max(initial=0.0))
        own = own if not overflowing or own <= _ROUNDING * self.scale else 0.0
        self.noise = max(ALLOWANCE * max(moved, own), noise)
        self.allowed = self._allowed(self.scale)

    def _allowed(self, scale: float) -> float:
        return self.atol + self.rtol * scale + self.noise

    def judge(self, name: str) -> TensorError:
        """Return the verdict on tensor `name`."""
        near = self.gap_a + self.atol + self.rtol * self.scale  # rounding on top of what the original errs by there
        beyond = (self.gap > self.allowed) & (self.gap <= near)
        excused = self.both & ((self.gap <= self.gap_a) | beyond | self._lost())
        far = self.both & ~excused & ~(self.gap <= self.allowed)
        unlike = self._unlike()
        why = ", and ".join(filter(None, (self._say_unlike(unlike), self._say_far(far))))
        severity = _ratio(float(self.gap.max(initial=0.0, where=self.both & ~excused)), self.allowed)
        if np.any(unlike):
            severity = math.inf
        original = None if self.independent is None else self._deviation(self.gap_a)
        rewritten, dtype = self._deviation(self.gap), self.dtype.name
        return TensorError(name, dtype, original, rewritten, self.scale, self.allowed, not why, why, severity)

    def _gap(self, result: np.ndarray, both: np.ndarray) -> np.ndarray:
        """Return |result - reference| where both are finite, else 0."""
        return np.asarray(np.abs(np.where(both, result, 0) - np.where(both, self.right, 0)))

    def _unlike(self) -> np.ndarray:
        """Where NaN, infinity or a finite number is not what should be there."""
        unlike = ~self.both & (self.kind_b != self.kind)
        if np.any(unlike):
            unlike &= ~self._at_the_limit() & ~self._as_the_overflowed_original()
            if self.overflowing:
                unlike &= np.isfinite(self.right) & ~self._lost() & ~self._overflowed_too()
        return np.asarray(unlike)

    def _lost(self) -> np.ndarray:
        """Where large inputs made the original overflow, and not the reference: any result is as good there."""
        return np.asarray((self.kind == _FINITE) & (self.kind_a != _FINITE) & self.overflowing)

    def _at_the_limit(self) -> np.ndarray:
        """Where one of result and reference is just below the dtype's largest number, the other just above."""
        if self.dtype.kind == "c":
            return np.zeros(self.b.shape, np.bool_)
        finite = np.isfinite(self.right)
        beyond = ((self.kind_b == _INF) & (self.right > 0)) | ((self.kind_b == _MINUS_INF) & (self.right < 0))
        over = beyond & finite & (np.abs(self.right) + self.allowed > float(self.limits.max))
        under = (self.kind_b == _FINITE) & finite & (np.abs(self.b - self.right) <= self.allowed)
        return np.asarray(over | under)

    def _as_the_overflowed_original(self) -> np.ndarray:
        """Where the original is not of the reference's kind, and the result is what the original is."""
        lost = (self.kind_a != self.kind) & (self.kind_b == self.kind_a)
        largest = float(np.abs(self.a).max(initial=0.0, where=self.kind_a == _FINITE))
        near = np.abs(self.b - self.a) <= self._allowed(max(self.scale, largest))
        return np.asarray(lost & ((self.kind_a != _FINITE) | near))

    def _overflowed_too(self) -> np.ndarray:
        """Where of result and original one is NaN, the other infinite: over the top, infinities may meet on the way.

        A sum of many terms that overflows on its way stays at the end that it reached first: a matter of their order.
        """
        endless, own = ((kind == _INF) | (kind == _MINUS_INF) for kind in (self.kind_b, self.kind_a))
        nan = (self.kind_b == _NAN) & own
        infinite = ((self.kind_a == _NAN) | (own & self.adds_up)) & endless
        return np.asarray(nan | (infinite & (self.kind != _NAN)))

    def _say_unlike(self, unlike: np.ndarray) -> str:
        """Say where NaN, infinity and finite numbers do not agree: the commonest such case; empty for none."""
        if not np.any(unlike):
            return ""
        cases = np.stack([self.kind_b[unlike], self.kind_a[unlike], self.kind[unlike]], axis=1)
        found, counts = np.unique(cases, axis=0, return_counts=True)
        b, a, right = (_KINDS[kind] for kind in found[counts.argmax()])
        count = f"({counts.max()} of {self.b.size} elements)"
        if a == right:
            return f"is {b} where the original is {a} {count}"
        return f"is {b} where the original is {a} and the {self.independent} reference {right} {count}"

    def _say_far(self, far: np.ndarray) -> str:
        """Say by how much the furthest of the elements that are too far differs; empty for none."""
        if not np.any(far):
            return ""
        place = int(np.where(far, self.gap, -1.0).argmax())
        numbers = f"by {self.gap[place]:.3g} where {self.allowed:.3g} is allowed (scale {self.scale:.3g})"
        if self.independent is None:
            return f"differs from the original {numbers}"
        kind = self.kind_a[place]
        own = f"differs by {self.gap_a[place]:.3g}" if kind == _FINITE else f"is {_KINDS[kind]}"
        return f"differs from the {self.independent} reference {numbers}; the original {own} there"

    def _deviation(self, gap: np.ndarray) -> Deviation:
        """Return the largest of these distances from the reference, in all three measures."""
        meaningful = self.magnitude >= _MEANINGFUL * self.scale
        relative = float((gap / self.magnitude).max(initial=0.0, where=meaningful & (self.magnitude > 0)))
        # Numbers of magnitude [2**e, 2**(e + 1)) lie 2**(e - nmant) apart; below the least normal one as just above it.
        exponent = np.maximum(np.frexp(self.magnitude)[1] - 1, int(self.limits.minexp))
        spacing = np.ldexp(np.ones_like(self.magnitude), exponent - int(self.limits.nmant))
        return Deviation(
            float(gap.max(initial=0.0)), relative, float((gap / spacing).max(initial=0.0, where=meaningful))
        )


def _ratio(gap: float, allowed: float) -> float:
    """Return gap / allowed; 0 for no gap at all, or where anything is allowed."""
    if gap == 0 or allowed == math.inf:
        return 0.0
    return gap / allowed if allowed else math.inf


def _plain(array: np.ndarray) -> np.ndarray:
    """Return a narrow float of ml_dtypes as float64; numpy's own as they are."""
    return array.astype(np.float64) if array.dtype.name.startswith(("bfloat16", "float8")) else array


def _held(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return float64 (or wider) numbers rounded to `dtype`, out of its range infinite (NaN in types without)."""
    if dtype.itemsize < 4:
        array = array.astype(np.float64)  # ml_dtypes take nothing wider
    return _plain(array.astype(dtype))


def _kinds(array: np.ndarray) -> np.ndarray:
    """Return, for each element, which of `_KINDS` it is.  Complex infinities have no sign."""
    kinds = np.where(np.isnan(array), _NAN, _FINITE)
    infinite = np.isinf(array) & (kinds != _NAN)
    negative = array.real < 0 if array.dtype.kind != "c" else np.zeros(array.shape, np.bool_)
    return np.where(infinite, np.where(negative, _MINUS_INF, _INF), kinds)
