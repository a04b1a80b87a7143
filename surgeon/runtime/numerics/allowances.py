"""By how much a result may differ from the reference, and why.

An allowance is a value with a reason, and the limit of an element is the sum of its allowances.  Those of the dtype,
the rule and the kernels are known before anything is measured.  Those of rounding need the sensitivity of the
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

# A result may err by this many times what the reference moves by, or the original errs by: each is one sample of how
# far rounding can carry what is computed here.
ROUNDING_FACTOR = 4.0
COUNTED = 0.25  # of integers that nothing rounds: half of the way to where an integer rounds to the next one
_OWN = 16.0  # times what the reference moves by: an original that errs by more does not err by rounding
# The part of the scale up to which an error on large inputs may be rounding: float16, the coarsest common dtype, rounds
# a step to 5e-4 of it.  Beyond, a step has overflowed.
_ROUNDING = 1e-2


class Allowance(NamedTuple):
    """One reason for which a result may differ."""

    size: np.ndarray
    """By how much, for each element or for all."""
    because: str
    """The reason, as a clause."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """What may differ on purpose, and what else is known of a run."""

    dtype: np.dtype
    """Dtype of the results."""
    rtol: float | None = None
    """The user's relative tolerance in place of the dtype's, as a part of the scale of the whole tensor."""
    atol: float | None = None
    """The user's absolute tolerance in place of the dtype's."""
    intended_error: float = 0.0
    """How far a rule changes numbers on purpose, in parts of 1 and of the scale."""
    overflowing: bool = False
    """Whether the inputs are finite and large.

    Where the reference is not finite then, it overflowed too, and anything is accepted (log(1 + exp(x)) overflows at
    1e4, Softplus does not, and is right).  Where the original overflowed to infinity, the result may be NaN, and the
    other way round, if the reference is not NaN.
    """
    terms: int = 1
    """Number of terms of the original's longest sum."""
    absolute_error: float | np.ndarray = 0.0
    """The part of the dtype's absolute tolerance that counts, for all elements or for each.

    Above 0 where kernels have an absolute error: Sigmoid of -20 may be 0.
    """
    shared_error: bool = False
    """Whether both results come from the same kernels, so that their absolute errors cancel."""
    signed_zeros: bool = False
    """Whether 0 and -0 differ."""
    precision: str = ""
    """The dtype in which floats of more digits were computed; empty where each was computed in its dtype."""

    @property
    def is_own(self) -> bool:
        """Whether the user set the tolerance."""
        return self.rtol is not None or self.atol is not None

    @property
    def tolerance(self) -> tuple[float, float]:
        """The relative and the absolute tolerance in force."""
        return tolerance(name_of_dtype(self.rounding), self.rtol, self.atol)

    @property
    def rounding(self) -> np.dtype:
        """The dtype whose rounding the results have."""
        if not self.precision or name_of_dtype(self.dtype) not in TOLERANCES:
            return self.dtype
        return max(self.dtype, np.dtype(self.precision), key=_unit)

    @property
    def units(self) -> float:
        """Units in the last place of `dtype` in one of `rounding`."""
        return _unit(self.rounding) / _unit(self.dtype)

    @property
    def reason(self) -> str:
        """Why a result may differ by the tolerance in force, as a clause."""
        return "the tolerance was given" if self.is_own else f"{name_of_dtype(self.rounding)} rounds"

    @property
    def sum_ulps(self) -> float:
        """The error of the longest sum in units in the last place of its terms, added in any order.

        It is the square root of their number, with near certainty (Higham and Mary, A New Approach to Probabilistic
        Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019).  It is 0 in half precision, which kernels add up in
        float32.
        """
        return math.sqrt(self.terms) if self.dtype.itemsize >= 4 else 0.0


def _unit(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


class Compared(NamedTuple):
    """What allowances depend on: the reference, and how far the original is from it.  All arrays are flat."""

    classes: MagnitudeClasses
    """The finite numbers of the reference by magnitude."""
    own_error: np.ndarray
    """|original - reference|, 0 where one is not finite."""
    countable: np.ndarray
    """Where an integer differs from a rounded number, if all numbers are integers; nowhere if they are not."""
    moved: Sensitivity
    """How far the reference moves."""


def fixed_allowances(of: Compared, asked: JudgeSettings) -> Iterator[Allowance]:
    """What is allowed however well conditioned the computation is, as parts of the scale of similar elements."""
    classes, slack = of.classes, asked.intended_error
    rounding = allowed_rounding(classes, asked)
    if asked.is_own:
        yield rounding
        if slack:
            yield Allowance(np.asarray(slack * (1 + classes.largest)), f"the rule says approximate={slack:g}")
        return
    left = np.where(of.countable, COUNTED, np.inf) if not slack else np.asarray(np.inf)
    size = np.minimum(rounding.size, left)
    yield rounding._replace(size=size)
    if slack:
        yield Allowance(classes.spread(slack * (1 + classes.scale)), f"the rule says approximate={slack:g}")
    by_kernels = kernel_error(asked)
    if not asked.shared_error and np.any(by_kernels):
        yield Allowance(np.minimum(by_kernels, left - size), "kernels of such functions err by as much near one")


def measured_allowances(of: Compared, asked: JudgeSettings, rounding: np.ndarray) -> Iterator[Allowance]:
    """What rounding on the way explains.  rounding: of `rounding_by_class`."""
    yield Allowance(of.classes.spread(rounding + _conditioned(of, asked)), "rounding on the way moves it as far")
    yield Allowance(ROUNDING_FACTOR * of.moved.jumps, "a rounded number on the way may fall to either side")


def rounding_by_class(of: Compared, asked: JudgeSettings) -> np.ndarray:
    """How far rounding moves numbers of each class, from moves of the reference and errors of the original."""
    classes, jumps = of.classes, of.moved.jumps
    moved = classes.largest_of(of.moved.smooth)
    errs = np.where(jumps > 0, 0.0, of.own_error) if np.any(jumps) else of.own_error
    own = np.minimum(classes.largest_of(errs), _OWN * moved) if np.any(moved) else moved
    if asked.overflowing:
        own = np.where(own <= _ROUNDING * classes.scale, own, 0.0)
    summed = asked.sum_ulps * classes.largest_of(of.moved.inputs)
    return np.asarray(np.maximum(ROUNDING_FACTOR * np.maximum(moved, own), summed))


def _conditioned(of: Compared, asked: JudgeSettings) -> np.ndarray:
    """The same part of the scale of the terms: where terms cancel, the result is small beside them."""
    if asked.is_own:
        return np.zeros(of.classes.scale.shape)
    terms = of.classes.largest_of(of.moved.smooth) / _unit(asked.rounding)
    return np.asarray(asked.tolerance[0] * np.minimum(of.classes.usual, terms))


def allowed_rounding(classes: MagnitudeClasses, asked: JudgeSettings) -> Allowance:
    """The allowed rounding of each element, as a part of the scale of similar ones.

    A tolerance of the user is a part of the scale of the whole tensor, as documented.
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
    """The absolute error that kernels may have, for all elements or for each."""
    unit = max(asked.tolerance[1], _unit(asked.rounding))
    return np.asarray(ROUNDING_FACTOR * unit * np.asarray(asked.absolute_error, np.float64)).ravel()


def _below_normal(limits: ml_dtypes.finfo) -> float:
    """The allowed difference below the smallest normal number, where some kernels flush to zero.

    Kernels for float16 compute in float32, and round to the subnormal numbers of float16.
    """
    flushed = float(limits.tiny) if int(limits.maxexp) >= 128 else 0.0
    return ROUNDING_FACTOR * float(limits.smallest_subnormal) + flushed
