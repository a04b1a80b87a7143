"""Thresholds of decisions: followed back through arithmetic with constants, and verified by forward evaluation."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

MAX_SOLUTIONS = 128  # maximum number of solutions of one threshold
ALIKE = 1e-3  # relative distance to a threshold that may fall on either side
_ERRORS = 4  # multiple of the arithmetic error that counts as near
_USUAL = np.dtype(np.float32)
_NEIGHBOURED = ("float32", "float64")  # some runtimes compute other dtypes in higher precision


@dataclass(frozen=True, slots=True, eq=False)
class ArithmeticStep:
    """One node of arithmetic with a constant, or a Cast."""

    family: str = ""
    """One of "sum" and "product"; "" for a Cast."""
    sign: int = 1
    """-1 if the tensor is subtracted or a divisor."""
    other: np.ndarray | None = None
    """The constant, float64, 1-D; None: none."""
    constant_sign: int = 1
    """-1 if the constant is subtracted or a divisor."""
    dtype: np.dtype | None = None
    """Target dtype of a Cast; None: arithmetic."""

    @property
    def key(self) -> Hashable:
        """Equal for equal steps."""
        other = None if self.other is None else self.other.tobytes()
        return self.family, self.sign, other, self.constant_sign, self.dtype

    def invert(self, made: np.ndarray) -> np.ndarray:
        """The inputs for some results; infinite or NaN if there are none."""
        if self.family == "sum":
            return self.sign * (made if self.other is None else made - self.constant_sign * self.other)
        if self.family != "product":
            return made
        if self.sign < 0:
            return (1.0 if self.other is None else self.other) / made
        if self.other is None:
            return made
        return np.where(self.other == 0, np.nan, made / self.other if self.constant_sign > 0 else made * self.other)

    def apply(self, given: np.ndarray) -> np.ndarray:
        """The results of some inputs, in their dtype, as a runtime computes them."""
        if self.dtype is not None:
            return given.astype(self.dtype)
        made: np.ndarray = self._computed(given, None if self.other is None else self.other.astype(given.dtype))
        return made

    def keeps(self, given: np.ndarray) -> np.ndarray:
        """Whether the results are mathematically exact, without rounding, for each element."""
        made = self.apply(given)
        if self.dtype is not None:
            kept: np.ndarray = made.astype(np.float64) == given.astype(np.float64)
            return kept
        other = np.zeros(1) if self.other is None else self.other
        one, beside, found = np.broadcast_arrays(given, other.astype(given.dtype), made)
        finite = np.isfinite(one) & np.isfinite(beside) & np.isfinite(found)
        exact = np.zeros(found.shape, bool)
        for at in zip(*np.nonzero(finite), strict=True):
            held = None if self.other is None else Fraction(float(beside[at]))
            exact[at] = self._computed(Fraction(float(one[at])), held) == Fraction(float(found[at]))
        return exact

    def error(self, given: np.ndarray, made: np.ndarray, error: np.ndarray, eps: float) -> np.ndarray:
        """The error bound of the results, for an error bound of the inputs and a relative rounding error eps."""
        if self.family == "sum":
            found: np.ndarray = error + eps * (np.abs(made) + np.abs(0.0 if self.other is None else self.other))
            return found
        if self.family == "product":
            return np.where(given == 0, 0.0, np.abs(made) * (error / np.abs(given) + 2 * eps))
        return error

    def _computed(self, given: Any, other: Any) -> Any:
        """The result for numbers of any type."""
        if self.family == "sum":
            term = given if self.sign > 0 else -given
            return term if other is None else term + other if self.constant_sign > 0 else term - other
        if self.family != "product":
            return given
        if self.sign < 0:
            return (1 if other is None else other) / given
        return given if other is None else given * other if self.constant_sign > 0 else given / other


@dataclass(frozen=True, eq=False)
class Threshold:
    """Numbers that a tensor is compared with, and how the tensor is computed from a source tensor.

    Methods take numbers of the source as 1-D float64. Results have a row per number, and a column per element of the
    constants in `steps`, or one column.
    """

    values: np.ndarray
    """The numbers, float64, 1-D."""
    steps: Sequence[ArithmeticStep] = ()
    """Arithmetic from the source to the tensor, in order."""
    dtype: np.dtype = _USUAL
    """Floating-point dtype of the source."""
    is_model_input: bool = False
    """Whether the source is an input of the model."""
    rounds: bool = False
    """Whether the tensor is rounded, so that every multiple of 0.5 is a threshold; `values` are those to try."""

    @property
    def key(self) -> Hashable:
        """Equal for equal thresholds."""
        return (
            self.values.tobytes(),
            tuple(step.key for step in self.steps),
            self.dtype,
            self.is_model_input,
            self.rounds,
        )

    @property
    def is_plain(self) -> bool:
        """Whether `steps` have no arithmetic, and no cast loses precision."""
        casts = [step.dtype for step in self.steps if step.dtype is not None and step.dtype.kind not in "iub"]
        is_narrowed = any(dtype.itemsize < self.dtype.itemsize for dtype in casts)
        return not is_narrowed and not any(step.family for step in self.steps)

    @cached_property
    def source_values(self) -> np.ndarray:
        """The mathematical values of the source, a row for each of `values`."""
        found = self.values.reshape(-1, 1)
        with np.errstate(all="ignore"):
            for step in reversed(self.steps):
                found = step.invert(found)
        return found

    def solutions(self) -> np.ndarray:
        """Numbers of the source's dtype for which the tensor equals a threshold, bit by bit."""
        found = np.unique(self.source_values[np.isfinite(self.source_values)])[:MAX_SOLUTIONS]
        with np.errstate(all="ignore"):
            held = found.astype(self.dtype)
            if not self.is_plain and self.dtype.name in _NEIGHBOURED:
                ends = [np.nextafter(held, np.array(end, self.dtype)) for end in (-np.inf, np.inf)]
                held = np.concatenate([held, *ends])
        numbers = held.astype(np.float64)
        numbers = numbers[np.isfinite(numbers)]
        return np.asarray(numbers[self.meets(numbers).any(axis=1)])

    def meets(self, numbers: np.ndarray) -> np.ndarray:
        """Whether the tensor equals a threshold, for each number; without rounding in half precision."""
        if not self.is_plain and self.dtype.name not in _NEIGHBOURED:
            return self.meets_exactly(numbers)
        held = numbers.astype(self.dtype)
        with np.errstate(all="ignore"):
            made = held.reshape(-1, 1)
            for step in self.steps:
                made = step.apply(made)
            met: np.ndarray = self._is_wanted(made) & (held.astype(np.float64) == numbers).reshape(-1, 1)
        return met

    def meets_exactly(self, numbers: np.ndarray) -> np.ndarray:
        """Whether the tensor equals a threshold without rounding in `steps`, for each number."""
        held = numbers.astype(self.dtype)
        exact, made = (held.astype(np.float64) == numbers).reshape(-1, 1), held.reshape(-1, 1)
        with np.errstate(all="ignore"):
            for step in self.steps:
                exact = exact & step.keeps(made)
                made = step.apply(made)
            met: np.ndarray = exact & self._is_wanted(made)
        return met

    def is_near(self, numbers: np.ndarray) -> np.ndarray:
        """Whether rounding may decide, for each number."""
        given = numbers.reshape(-1, 1).astype(np.float64)
        eps = float(ml_dtypes.finfo(self.dtype).eps)
        error = np.zeros(given.shape) if self.is_plain else eps * np.abs(given)
        with np.errstate(all="ignore"):
            beside = given.reshape(-1, 1, 1)
            like = np.maximum(np.abs(self.source_values), np.abs(beside))
            near: np.ndarray = (np.abs(self.source_values - beside) <= ALIKE * like).any(axis=1)
            for step in self.steps:
                made = step.apply(given)
                error = error if self.is_plain else step.error(given, made, error, eps)
                given = made.astype(np.float64)
            if self.rounds:
                apart = np.abs(2 * given - np.rint(2 * given)) / 2
                return np.asarray(near | (apart <= np.maximum(_ERRORS * error, ALIKE * np.abs(given))))
            apart = np.abs(given[..., None] - self.values)
            reached: np.ndarray = near | (apart <= _ERRORS * error[..., None]).any(axis=2)
        return reached

    def _is_wanted(self, made: np.ndarray) -> np.ndarray:
        """Whether the tensor equals a threshold in its dtype, for each element."""
        found = made.astype(np.float64)
        if self.rounds:
            halves: np.ndarray = np.isfinite(found) & (2 * found == np.rint(2 * found))
            return halves
        wanted = self.values if made.dtype.kind in "iub" else self.values.astype(made.dtype).astype(np.float64)
        return np.isin(found, wanted)
