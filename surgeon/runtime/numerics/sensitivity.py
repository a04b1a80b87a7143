"""How far a reference moves when its inputs or intermediate results move: smoothly, or by a jump.

A smooth computation moves in proportion to its inputs.  A rounding, comparison or selection stays or jumps.  A smooth
move shows the effect of rounding on results of that magnitude.  A jump concerns only the element that jumped, and only
if a rounded number precedes it: after exact numbers, it can go only one way.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from surgeon.runtime.numerics.array_comparison import TOLERANCES, dtype_name, name_of_dtype

# The smaller of two moves, as a share of the larger: 1/64 of a unit of float32 is 2**23 units of float64, in which the
# reference computes.
STEP_FRACTION = 1 / 64
# The range of the response to the smaller move, as a share of the response to the larger, for a smooth result.  A line
# gives STEP_FRACTION.  The factors allow for curves, and the upper one for a root near zero, with 8 times as much.
_MIN_RATIO, _MAX_RATIO = STEP_FRACTION / 8, STEP_FRACTION * 16

Pair = tuple[np.ndarray, np.ndarray]
"""A reference's results for a move, and for `STEP_FRACTION` of the same move."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far each element of an output moves: float64 arrays of the output's shape, or scalars for all elements."""

    smooth: np.ndarray
    """The response to moves of one unit in the last place if it is smooth, else 0."""
    jumps: np.ndarray
    """The response to moves of rounded numbers if it is not smooth, else 0."""
    inputs: np.ndarray
    """The part of `smooth` that comes from moves of the inputs."""

    @classmethod
    def uniform(cls, smooth: float) -> "Sensitivity":
        """The same for all elements."""
        return cls(np.asarray(smooth), np.zeros(()), np.asarray(smooth))

    def maximum(self, other: "Sensitivity") -> "Sensitivity":
        """The larger of two, element by element."""
        pairs = ((self.smooth, other.smooth), (self.jumps, other.jumps), (self.inputs, other.inputs))
        return Sensitivity(*(np.maximum(one, two) for one, two in pairs))


def classify_sensitivity(
    reference: np.ndarray, dtype: np.dtype, by_inputs: Iterable[Pair], by_rounding: Iterable[Pair], unit: float = 1.0
) -> Sensitivity:
    """Separate smooth moves from jumps.

    by_inputs: results for moved inputs.  by_rounding: results with each rounded intermediate number moved.  dtype: the
    output's dtype; results outside its range do not count.  unit: the larger of two moves, in units in the last place.
    """
    found = Sensitivity(*(np.zeros(reference.shape) for _ in range(3)))
    for pairs, is_rounding in ((by_inputs, False), (by_rounding, True)):
        for full, part in pairs:
            far, near = difference(reference, full, dtype), difference(reference, part, dtype)
            is_smooth = (near >= _MIN_RATIO * far) & (near <= _MAX_RATIO * far)
            smooth = np.where(is_smooth, far, 0.0) / unit
            jumps = np.where(is_smooth, 0.0, np.maximum(far, near)) if is_rounding else np.zeros(reference.shape)
            found = found.maximum(Sensitivity(smooth, jumps, np.zeros(reference.shape) if is_rounding else smooth))
    return found


def difference(reference: np.ndarray, moved: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
    """|reference - moved|; 0 if one of them is not finite in `dtype`, or if the shapes differ.

    The difference of strings and booleans is 1 if they differ.
    """
    if reference.shape != moved.shape:
        return np.zeros(reference.shape)
    if dtype_name(reference) not in TOLERANCES:
        if reference.dtype.kind in "iu":
            return np.abs(reference.astype(np.float64) - moved.astype(np.float64))
        return np.asarray(reference != moved, np.float64)
    with np.errstate(all="ignore"):
        wide = np.result_type(
            np.complex128 if reference.dtype.kind == "c" else np.float64, widen_narrow_float(reference).dtype
        )
        one, two = widen_narrow_float(reference).astype(wide), widen_narrow_float(moved).astype(wide)
        both = np.isfinite(round_to_dtype(one, dtype) if dtype is not None else one)
        both &= np.isfinite(round_to_dtype(two, dtype) if dtype is not None else two)
        return np.asarray(np.abs(np.where(both, one, 0) - np.where(both, two, 0)), np.float64)


def widen_narrow_float(array: np.ndarray) -> np.ndarray:
    """Return a narrow float of ml_dtypes as float64, any other array unchanged."""
    return array.astype(np.float64) if name_of_dtype(array.dtype).startswith(("bfloat16", "float8")) else array


def round_to_dtype(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return float64 (or wider) numbers rounded to `dtype`; outside its range infinite, or NaN without infinity."""
    if name_of_dtype(dtype) not in TOLERANCES:
        return array
    if dtype.itemsize < 4:
        array = array.astype(np.float64)  # ml_dtypes do not convert wider dtypes
    return widen_narrow_float(array.astype(dtype))


def spacing(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The distance between numbers of `dtype` at each magnitude, in floats as wide as these.

    Numbers of magnitude [2**e, 2**(e + 1)) are 2**(e - nmant) apart; subnormal ones like the least normal ones.
    """
    limits = ml_dtypes.finfo(dtype)
    exponent = np.maximum(np.frexp(np.abs(array))[1] - 1, int(limits.minexp))
    return np.asarray(np.ldexp(np.ones(array.shape, array.dtype), exponent - int(limits.nmant)))
