"""Compare two results of one output: tolerances by dtype, and equality."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from surgeon.errors import UsageError
from surgeon.result_base import JsonRecord
from surgeon.text import format_beside_limit

# dtype -> (rtol, atol).  An element may differ by atol + rtol * scale, where scale is the greatest finite magnitude
# in the original's output.  The scale is that of the whole tensor, not of the element: rounding errors of sums are
# proportional to the terms, so elements near zero have errors of the tensor's size.
# float32: about 160 units in the last place of the scale.  Fusing costs 2e-7 of it in small networks and some 1e-6 in
# deep ones.  It costs up to 2e-5 if the model has 1.4142 for the square root of two, which patterns accept.  The tanh
# form of GELU differs from the erf form by 5e-4 absolute.  Other dtypes keep a similar distance from their precision.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-12),
    "complex128": (1e-9, 1e-12),
    "float32": (2e-5, 1e-6),
    "complex64": (2e-5, 1e-6),
    "float16": (5e-3, 1e-4),
    "bfloat16": (4e-2, 1e-3),
    "float8_e4m3fn": (0.25, 1e-2),
    "float8_e4m3fnuz": (0.25, 1e-2),
    "float8_e5m2": (0.5, 1e-2),
    "float8_e5m2fnuz": (0.5, 1e-2),
}
EXACT = (0.0, 0.0)  # integers, booleans, strings
_MANY = 16  # in a slice of so many elements, not all are small by chance
_MEANINGFUL = 1e-3  # elements below this share of the scale may be off by many of their units and still be correct


@dataclass(frozen=True, slots=True)
class OutputError(JsonRecord):
    """The largest error of one output.  It is infinite if shape, dtype, NaN or infinity differ."""

    JSON = "name dtype max_abs max_rel scale allowed ok"

    name: str
    """Name of the output."""
    dtype: str
    """Its dtype, by name."""
    max_abs: float
    """Largest |original - rewritten|."""
    max_rel: float
    """Largest |original - rewritten| / |original| over elements of at least `scale` / 1,000."""
    scale: float
    """Largest finite |original|."""
    allowed: float
    """Tolerance for `max_abs`."""
    ok: bool
    """Whether it is within the tolerance."""

    @property
    def severity(self) -> float:
        """The error divided by the tolerance; above 1, the output fails."""
        if self.allowed:
            return self.max_abs / self.allowed
        return math.inf if self.max_abs else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of one output."""

    error: OutputError
    """Its largest error."""
    why: str
    """The difference in words; empty if the output passes."""


def tolerance(dtype: str, rtol: float | None = None, atol: float | None = None) -> tuple[float, float]:
    """Return (rtol, atol) for a dtype's name.  The caller's numbers replace the table's, except for exact types."""
    if dtype not in TOLERANCES:
        return EXACT
    usual = TOLERANCES[dtype]
    return (usual[0] if rtol is None else rtol, usual[1] if atol is None else atol)


def compare(
    name: str,
    original: np.ndarray,
    rewritten: np.ndarray,
    rtol: float | None,
    atol: float | None,
    noise: float = 0.0,
    *,
    by_parts: bool = False,
) -> Comparison:
    """Compare two results of one output; `noise` is added to the tolerance.

    by_parts: if no tolerance is given, also compare each element with the largest of its row and column, because an
    output may contain scores next to positions in pixels.
    """
    dtype = dtype_name(original)
    if why := mismatch_reason(original, rewritten):
        return Comparison(OutputError(name, dtype, math.inf, max_rel=math.inf, scale=0.0, allowed=0.0, ok=False), why)
    if dtype not in TOLERANCES:
        return _compare_exact(name, dtype, original, b=rewritten, noise=noise)
    a, b = _wide(original), _wide(rewritten)
    finite, why = np.isfinite(a), None
    if not (finite.all() and np.isfinite(b).all()):
        why = non_finite_mismatch(a, b)
        a, b = only(a, finite), only(b, finite)
    magnitude = np.abs(a)
    largest = float(magnitude.max(initial=0.0))
    scale = largest if math.isfinite(largest) else max_magnitude(magnitude)  # a complex one may overflow
    relative, absolute = tolerance(dtype, rtol, atol)
    allowed = absolute + relative * scale + noise
    if why is not None:
        return Comparison(
            OutputError(name, dtype, math.inf, max_rel=math.inf, scale=scale, allowed=allowed, ok=False), why
        )
    with np.errstate(over="ignore"):
        gap = np.abs(a - b)
    max_abs = float(gap.max(initial=0.0))
    max_rel = max_relative(gap, magnitude, scale) if max_abs else 0.0
    ok = max_abs <= allowed
    if ok and by_parts and rtol is None and atol is None and absolute + noise < max_abs:
        scales = scale_per_slice(magnitude)
        limits = absolute + relative * scales + noise
        place = np.unravel_index(int((gap / limits).argmax()), gap.shape)
        if gap[place] > limits[place]:
            ok, max_abs, allowed, scale = False, float(gap[place]), float(limits[place]), float(scales[place])
    by, most = format_beside_limit(max_abs, allowed)
    why = "" if ok else f"differs by {by} (limit {most}, values up to {scale:.3g})"
    return Comparison(OutputError(name, dtype, max_abs, max_rel=max_rel, scale=scale, allowed=allowed, ok=ok), why)


def scale_per_slice(magnitude: np.ndarray) -> np.ndarray:
    """For each element, the smallest of the largest magnitudes of its slices along each axis.

    Slices of few elements do not count, because all of their elements may be small by chance.
    """
    found = np.full(magnitude.shape, magnitude.max(initial=0.0))
    for axis, count in enumerate(magnitude.shape):
        if count > 1 and magnitude.size // count >= _MANY:
            others = tuple(other for other in range(magnitude.ndim) if other != axis)
            found = np.minimum(found, magnitude.max(axis=others, keepdims=True))
    return found


def _compare_exact(name: str, dtype: str, a: np.ndarray, b: np.ndarray, noise: float) -> Comparison:
    """Compare integers, booleans or strings: all elements must be equal (integers up to `noise`)."""
    wrong = int(np.count_nonzero(a != b))
    numeric = dtype not in ("string", "bool")
    scale = max_abs_difference(a, np.zeros_like(a)) if numeric else 1.0
    # Integers beyond 2**53 may differ but be equal as doubles.
    gap = max(max_abs_difference(a, b), 1.0) if wrong else 0.0
    ok = gap <= noise
    by = f", by {gap:.4g} at most" if numeric else ""
    why = "" if ok else f"differs in {wrong} of {a.size} elements{by}"
    relative = gap / scale if scale else (math.inf if gap else 0.0)
    return Comparison(OutputError(name, dtype, gap, max_rel=relative, scale=scale, allowed=noise, ok=ok), why)


def mismatch_reason(original: np.ndarray, rewritten: np.ndarray) -> str | None:
    """The difference in dtype or shape, in words; None if there is none."""
    if dtype_name(rewritten) != dtype_name(original):
        return f"is {dtype_name(rewritten)}, but {dtype_name(original)} in the original"
    if original.shape != rewritten.shape:
        return f"has shape {list(rewritten.shape)}, but {list(original.shape)} in the original"
    return None


def only(array: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The chosen elements, and 0 instead of the others."""
    return array if chosen.all() else np.where(chosen, array, 0)


def is_meaningful(magnitude: np.ndarray, scale: float) -> np.ndarray:
    """A mask of the elements whose relative error counts: those that are not small compared with the largest."""
    return np.asarray(magnitude >= _MEANINGFUL * scale)


def max_relative(gap: np.ndarray, magnitude: np.ndarray, scale: float) -> float:
    """The largest gap / magnitude over meaningful nonzero elements."""
    counted = is_meaningful(magnitude, scale) & (magnitude > 0)
    return float(np.divide(gap, magnitude, out=np.zeros_like(gap), where=counted).max(initial=0.0))


def non_finite_mismatch(a: np.ndarray, b: np.ndarray) -> str | None:
    """The difference in NaN or infinity (by sign), in words; None if there is none."""
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    if (count := int(np.count_nonzero(nan_a != nan_b))) > 0:
        return f"is NaN at other indices than the original ({count} of {a.size} elements)"
    inf_a, inf_b = np.isinf(a), np.isinf(b)
    # The sign matters if both are infinite.  Complex infinities have no sign.
    signs = (inf_a & inf_b & (a != b)) if a.dtype.kind == "f" else np.zeros_like(inf_a)
    if (count := int(np.count_nonzero((inf_a != inf_b) | signs))) > 0:
        return f"is infinite at other indices than the original ({count} of {a.size} elements)"
    return None


def _wide(array: np.ndarray) -> np.ndarray:
    """Return small floats as float32, others unchanged."""
    return array if array.dtype.kind in "fc" and array.dtype.itemsize >= 4 else array.astype(np.float32)


@cache
def name_of_dtype(dtype: np.dtype) -> str:
    """Return `dtype.name`, which numpy computes anew each time."""
    return dtype.name


def dtype_name(array: np.ndarray) -> str:
    """Return the dtype's name; `string` for text."""
    return "string" if array.dtype.kind in "OUS" else name_of_dtype(array.dtype)


def blocks(array: np.ndarray, most: int) -> list[np.ndarray]:
    """The elements of an array in order, in parts of at most so many."""
    return np.array_split(array.reshape(-1), -(-array.size // most) or 1)


def max_magnitude(array: np.ndarray) -> float:
    """Return the largest finite magnitude, 0 without any."""
    magnitude = np.abs(_wide(array))
    return float(magnitude.max(initial=0.0, where=np.isfinite(magnitude)))


def max_abs_difference(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest finite |a - b|, 0 without any.  For strings and booleans, 1 if any element differs."""
    if dtype_name(a) in ("string", "bool"):
        return float(np.any(a != b))
    wide = np.float64 if dtype_name(a) not in TOLERANCES else None
    a, b = (a.astype(wide), b.astype(wide)) if wide else (_wide(a), _wide(b))
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.abs(a - b).max(initial=0.0, where=finite))


_SHOWN: dict[str, Callable[[Any], object]] = {"b": bool, "i": int, "u": int, "O": repr, "U": repr}


@dataclass(slots=True)
class OutputRange:
    """The values of an output over all runs, to decide whether a comparison is informative."""

    size: int = 0
    """Number of elements."""
    low: Any = None
    """Smallest value; None before the first."""
    high: Any = None
    """Largest value."""
    numbers: bool = False
    """Whether any element was not NaN."""
    allowed: float = 0.0
    """Largest tolerance."""
    kind: Callable[[Any], object] = float
    """Converts a value for messages."""

    def add(self, array: np.ndarray, allowed: float) -> None:
        """Add one result of the original, and its tolerance."""
        self.size += array.size
        self.kind = _SHOWN.get(array.dtype.kind, float)
        self.allowed = max(self.allowed, allowed)
        if dtype_name(array) == "string":
            values = array.astype(str).ravel()
        else:
            values = _wide(array).ravel() if dtype_name(array) in TOLERANCES else array.astype(np.float64).ravel()
            if values.dtype.kind == "c":
                values = np.concatenate([values.real, values.imag])
            values = values[~np.isnan(values)]
        if values.size:
            low, high = (min(values), max(values)) if values.dtype.kind == "U" else (values.min(), values.max())
            self.low = low if not self.numbers else min(self.low, low)
            self.high = high if not self.numbers else max(self.high, high)
            self.numbers = True

    def uninformative_reason(self) -> str | None:
        """Why comparing this output is not informative; None if it is."""
        if not self.size:
            return "is empty"
        if not self.numbers:
            return "is all NaN"
        if self.low == self.high:
            return f"is {self.kind(self.low)} everywhere"
        if self.allowed and not isinstance(self.low, str) and self.high - self.low <= self.allowed:
            return f"varies less than the tolerance of {self.allowed:.3g}"
        return None


def uninformative_outputs(
    answers: Sequence[Mapping[str, np.ndarray]], allowed: Callable[[str, np.ndarray], float], *, has_inputs: bool
) -> tuple[dict[str, str], bool]:
    """The outputs that cannot show a difference in any of these runs, with reasons; and whether these are all outputs.

    allowed: the tolerance of an output in one run.  has_inputs: whether the model has any; otherwise a constant is
    informative.
    """
    # The items of a list count, not its length.
    names = [name for name in answers[0] if not name.startswith(("len(", "keys("))]
    empty: dict[str, str] = {}
    for name in names:
        spread = OutputRange()
        for outputs in answers:
            if name in outputs:
                spread.add(outputs[name], allowed(name, outputs[name]))
        why = spread.uninformative_reason()
        if why is not None and (has_inputs or not spread.numbers):
            empty[name] = why
    return empty, len(empty) == len(names)


def uninformative_message(empty: Mapping[str, str], *, all_are: bool) -> str:
    """A sentence on outputs that are not informative."""
    if all_are:
        name, why = next(iter(empty.items()))
        return f"No output can show a difference: '{name}' {why} in the original."
    listed = ", ".join(f"'{name}' {why}" for name, why in list(empty.items())[:3])
    return f"Some outputs cannot show a difference: {listed}."


def require_tolerances(rtol: float | None, atol: float | None) -> None:
    """Raise UsageError for a tolerance that is negative, infinite or not a number."""
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not isinstance(value, (int, float, type(None))):
            raise UsageError(f"Invalid {name} {value!r}. Give a number, for example 1e-4.")
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UsageError(f"Invalid {name} {value}. Give a finite number of at least 0.")


def ignore_non_finite(original: np.ndarray, rewritten: np.ndarray) -> np.ndarray:
    """Return `rewritten` with the original's non-finite elements, so that these are not compared."""
    if dtype_name(original) not in TOLERANCES or (original.dtype, original.shape) != (rewritten.dtype, rewritten.shape):
        return rewritten
    return np.asarray(np.where(np.isfinite(original), rewritten, original))


def count_newly_finite(original: np.ndarray, rewritten: np.ndarray) -> int:
    """The number of finite elements that are not finite in the original; 0 if the two cannot be compared."""
    if dtype_name(original) not in TOLERANCES or (original.dtype, original.shape) != (rewritten.dtype, rewritten.shape):
        return 0
    return int(np.count_nonzero(~np.isfinite(original) & np.isfinite(rewritten)))


def tolerances_in_force(dtypes: Mapping[str, object], rtol: float | None, atol: float | None) -> dict[str, float]:
    """Return the tolerances for these dtypes, as `<dtype> rtol` and `<dtype> atol`."""
    stated: dict[str, float] = {}
    for dtype in dtypes:
        stated[f"{dtype} rtol"], stated[f"{dtype} atol"] = tolerance(dtype, rtol, atol)
    return stated


def same_values(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are equal in dtype, shape and every element; NaN equals NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(np.array_equal(a, b)) or (a.dtype.kind != "O" and a.tobytes() == b.tobytes())
