"""How much a result may differ from the reference, and why.

An allowance is a size with a reason.  The limit of an element is the sum of its allowances.  Allowances for the dtype,
the rule and the kernels need no measurement.  Allowances for intermediate rounding need the sensitivity of the
reference, which costs several runs, so they come last.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import ml_dtypes
import numpy as np

from surgeon.runtime.numerics.array_comparison import TOLERANCES, name_of_dtype, tolerance
from surgeon.runtime.numerics.magnitude_classes import MagnitudeClasses
from surgeon.runtime.numerics.sensitivity import Sensitivity

# A result may differ by this many times the measured moves of the reference or the error of the original.  Each is one
# sample of the effect of rounding.
ROUNDING_FACTOR = 4.0
COUNTED = 0.25  # limit for integers that no step rounds: half of the distance at which an integer would round elsewhere
_OWN = 16.0  # times the moves of the reference: a larger error of the original is not rounding
# The share of the scale up to which an error on large inputs may be rounding: float16, the coarsest common dtype,
# rounds a step to 5e-4 of it.  A larger error means that a step overflowed.
_ROUNDING = 1e-2


class Allowance(NamedTuple):
    """One reason why a result may differ."""

    size: np.ndarray
    """The allowed difference, for each element or for all."""
    because: str
    """The reason, as a clause."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Settings of a comparison: tolerances, intended differences, and properties of the run."""

    dtype: np.dtype
    """Dtype of the results."""
    rtol: float | None = None
    """The user's relative tolerance instead of the dtype's, as a share of the scale of the whole tensor."""
    atol: float | None = None
    """The user's absolute tolerance instead of the dtype's."""
    intended_error: float = 0.0
    """The difference that a rule makes on purpose, as a share of 1 and of the scale."""
    overflowing: bool = False
    """Whether the inputs are finite and large.

    If the reference is then not finite, it overflowed too, and every result is accepted: log(1 + exp(x)) overflows at
    1e4, but Softplus does not, and is correct.  If the original overflowed to infinity, the result may be NaN, and vice
    versa, unless the reference is NaN.
    """
    terms: int = 1
    """Number of terms of the original's longest sum."""
    absolute_error: float | np.ndarray = 0.0
    """The share of the dtype's absolute tolerance that applies, for all elements or for each.

    Above 0 if kernels have an absolute error: Sigmoid of -20 may be 0.
    """
    shared_error: bool = False
    """Whether both results come from the same kernels, so that their absolute errors cancel."""
    signed_zeros: bool = False
    """Whether 0 and -0 differ."""
    precision: str = ""
    """The dtype in which wider floats were computed; empty if each was computed in its own dtype."""

    @property
    def is_own(self) -> bool:
        """Whether the user set the tolerance."""
        return self.rtol is not None or self.atol is not None

    @property
    def tolerance(self) -> tuple[float, float]:
        """The relative and the absolute tolerance that apply."""
        return tolerance(name_of_dtype(self.rounding), self.rtol, self.atol)

    @property
    def rounding(self) -> np.dtype:
        """The dtype to which the results were rounded."""
        if not self.precision or name_of_dtype(self.dtype) not in TOLERANCES:
            return self.dtype
        return max(self.dtype, np.dtype(self.precision), key=_unit)

    @property
    def units(self) -> float:
        """The unit in the last place of `rounding`, in units of `dtype`."""
        return _unit(self.rounding) / _unit(self.dtype)

    @property
    def reason(self) -> str:
        """Why a result may differ by the tolerance, as a clause."""
        return "the user set the tolerance" if self.is_own else f"{name_of_dtype(self.rounding)} rounds"

    @property
    def sum_ulps(self) -> float:
        """The error of the longest sum, in units in the last place of its terms, for any order of adding.

        It is almost certainly at most the square root of their number (Higham and Mary, A New Approach to Probabilistic
        Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019).  It is 0 in half precision, because kernels add that in
        float32.
        """
        return math.sqrt(self.terms) if self.dtype.itemsize >= 4 else 0.0


def _unit(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


class Compared(NamedTuple):
    """Data for allowances: the reference, and its distance from the original.  All arrays are flat."""

    classes: MagnitudeClasses
    """The finite numbers of the reference by magnitude."""
    own_error: np.ndarray
    """|original - reference|; 0 if one is not finite."""
    countable: np.ndarray
    """A mask of numbers that are distinguishable integers; all False if there are other numbers."""
    moved: Sensitivity
    """The sensitivity of the reference."""


def fixed_allowances(of: Compared, asked: JudgeSettings) -> Iterator[Allowance]:
    """Allowances that do not depend on the conditioning of the computation, relative to similar elements."""
    classes, slack = of.classes, asked.intended_error
    rounding = allowed_rounding(classes, asked)
    if asked.is_own:
        yield rounding
        if slack:
            yield Allowance(np.asarray(slack * (1 + classes.largest)), f"the rule declares approximate={slack:g}")
        return
    left = np.where(of.countable, COUNTED, np.inf) if not slack else np.asarray(np.inf)
    size = np.minimum(rounding.size, left)
    yield rounding._replace(size=size)
    if slack:
        yield Allowance(classes.spread(slack * (1 + classes.scale)), f"the rule declares approximate={slack:g}")
    by_kernels = kernel_error(asked)
    if not asked.shared_error and np.any(by_kernels):
        yield Allowance(np.minimum(by_kernels, left - size), "kernels of such functions err this much near 1")


def measured_allowances(of: Compared, asked: JudgeSettings, rounding: np.ndarray) -> Iterator[Allowance]:
    """Allowances for intermediate rounding.  rounding: from `rounding_by_class`."""
    yield Allowance(of.classes.spread(rounding + _conditioned(of, asked)), "intermediate rounding may change it")
    yield Allowance(ROUNDING_FACTOR * of.moved.jumps, "an intermediate value may be rounded up or down")


def rounding_by_class(of: Compared, asked: JudgeSettings) -> np.ndarray:
    """The effect of rounding on each class of numbers, from moves of the reference and errors of the original."""
    classes, jumps = of.classes, of.moved.jumps
    moved = classes.largest_of(of.moved.smooth)
    errs = np.where(jumps > 0, 0.0, of.own_error) if np.any(jumps) else of.own_error
    own = np.minimum(classes.largest_of(errs), _OWN * moved) if np.any(moved) else moved
    if asked.overflowing:
        own = np.where(own <= _ROUNDING * classes.scale, own, 0.0)
    summed = asked.sum_ulps * classes.largest_of(of.moved.inputs)
    return np.asarray(np.maximum(ROUNDING_FACTOR * np.maximum(moved, own), summed))


def _conditioned(of: Compared, asked: JudgeSettings) -> np.ndarray:
    """The relative tolerance of the terms: if terms cancel, the result is small compared with them."""
    if asked.is_own:
        return np.zeros(of.classes.scale.shape)
    terms = of.classes.largest_of(of.moved.smooth) / _unit(asked.rounding)
    return np.asarray(asked.tolerance[0] * np.minimum(of.classes.usual, terms))


def allowed_rounding(classes: MagnitudeClasses, asked: JudgeSettings) -> Allowance:
    """The allowed rounding of each element, as a share of the scale of similar elements.

    The user's tolerance is a share of the scale of the whole tensor, as documented.
    """
    relative, absolute = asked.tolerance
    if asked.is_own:
        given = np.full(classes.scale.shape, absolute + relative * classes.largest)
        return Allowance(classes.spread(given), asked.reason)
    limits = ml_dtypes.finfo(asked.rounding)
    rounding = ROUNDING_FACTOR * float(limits.eps) * classes.usual
    size = np.maximum(relative * classes.scale, rounding) + _below_normal(limits)
    return Allowance(classes.spread(size), asked.reason)


def kernel_error(asked: JudgeSettings) -> np.ndarray:
    """The allowed absolute error of kernels, for all elements or for each."""
    unit = max(asked.tolerance[1], _unit(asked.rounding))
    return np.asarray(ROUNDING_FACTOR * unit * np.asarray(asked.absolute_error, np.float64)).ravel()


def _below_normal(limits: ml_dtypes.finfo) -> float:
    """The allowed difference below the smallest normal number, because some kernels flush to zero.

    float16 kernels compute in float32 and round to subnormal numbers of float16.
    """
    flushed = float(limits.tiny) if int(limits.maxexp) >= 128 else 0.0
    return ROUNDING_FACTOR * float(limits.smallest_subnormal) + flushed
