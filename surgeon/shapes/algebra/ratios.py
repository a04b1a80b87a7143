"""Floats between two integer sizes, as in `int(ceil(height / 32.0))`.

A float with an integer value is a size.  Numbers are computed in the model's dtype.  For symbolic sizes only results
that rounding cannot change are computed: floor and ceiling of quotients, and exact products and sums.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from onnx import TensorProto

from surgeon.shapes.algebra.size_expressions import Size, SizeError, at_least, exact_quotient, floor_div
from surgeon.shapes.tensor_types import FLOATS

KINDS: dict[int, Any] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
}
WIDE = frozenset({TensorProto.FLOAT, TensorProto.DOUBLE})  # dtypes that represent every size exactly
LARGEST = 1 << 53
MAX_FACTOR, MAX_DIVISOR = 1 << 8, 1 << 8  # with a size below 2^16, results of these are exact in float32


@dataclass(frozen=True, slots=True)
class Ratio:
    """A quotient of two sizes that is not a size."""

    over: Size
    """Dividend."""
    under: Size
    """Divisor."""
    is_rounded: bool = False
    """It is the nearest float to the quotient."""

    def __neg__(self) -> "Ratio":
        return Ratio(-self.over, self.under, self.is_rounded)


Number: TypeAlias = Size | Ratio


def ratio(over: Size, under: Size, *, is_rounded: bool = False) -> Number:
    """over / under; a plain size if that is an integer.  Raises SizeError for a divisor of 0."""
    if under == 0:
        raise SizeError("A size is divided by 0. Choose other sizes for the dims.")
    exact = exact_quotient(over, under)
    return Ratio(over, under, is_rounded) if exact is None else exact


def of_float(number: float) -> Number | None:
    """A float as an exact fraction; None if it is not finite, or too large for a size."""
    if not isfinite(number) or abs(number) > LARGEST:
        return None
    over, under = number.as_integer_ratio()
    return over if under == 1 else Ratio(over, under)


def computed(function: np.ufunc, dtype: int | None, *numbers: Number) -> Number | None:
    """Apply add, subtract, multiply, divide, negative, floor or ceil to floats; None if the rounding matters."""
    if dtype not in FLOATS:
        return None
    if all(map(is_fixed, numbers)):
        kind = KINDS[dtype]
        with np.errstate(all="ignore"):
            return of_float(float(function(*(kind(_as_float(number)) for number in numbers))))
    if dtype not in WIDE:
        return None
    if function.nin == 1:
        (number,) = numbers
        return floor(number) if function is np.floor else ceil(number) if function is np.ceil else -number
    a, b = numbers
    if any(isinstance(number, Ratio) and number.is_rounded for number in numbers):
        return None
    if function is np.multiply:
        return _product(a, b)
    if function is np.divide:
        return _quotient(a, b)
    return _sum(a, b if function is np.add else -b)


def rounded(number: Number, dtype: int) -> Number | None:
    """A number, rounded to a float dtype."""
    if is_fixed(number):
        with np.errstate(all="ignore"):
            return of_float(float(KINDS[dtype](_as_float(number))))
    return number if dtype in WIDE else None


def is_fixed(number: Number) -> bool:
    """Whether it contains no symbols."""
    return all(isinstance(part, int) for part in _parts(number))


def _as_float(number: Number) -> float:
    """A fixed number as Python's float; infinite if it is too large."""
    over, under = (part if isinstance(part, int) else 0 for part in _parts(number))
    try:
        return over / under
    except OverflowError:
        return float("inf") if over > 0 else float("-inf")


def _product(a: Number, b: Number) -> Number | None:
    """The product of two numbers, if one of them has few digits."""
    for factor, other in ((a, b), (b, a)):
        over, under = _parts(factor)
        if isinstance(over, int) and isinstance(under, int) and _is_short(over) and under <= MAX_DIVISOR:
            whole, beside = _parts(other)
            return ratio(whole * over, beside * under)
    return None


def _quotient(a: Number, b: Number) -> Number | None:
    """The quotient of two numbers with few fractional digits."""
    (over, under), (other, beside) = _parts(a), _parts(b)
    return ratio(over * beside, under * other, is_rounded=True) if _are_near_whole(under, beside) else None


def _are_near_whole(*under: Size) -> bool:
    """Whether numbers with these divisors have few fractional digits."""
    return all(isinstance(part, int) and part <= MAX_DIVISOR for part in under)


def _sum(a: Number, b: Number) -> Number | None:
    """The sum of two numbers with few fractional digits."""
    (over, under), (other, beside) = _parts(a), _parts(b)
    return ratio(over * beside + other * under, under * beside) if _are_near_whole(under, beside) else None


def _is_short(number: int) -> bool:
    """Whether a factor adds few digits to a product: powers of two add none."""
    return number == 0 or abs(number) // (number & -number) < MAX_FACTOR


def scaled(size: Size, scale: float) -> Size | None:
    """floor(size · scale) in single precision, as ONNX Runtime computes the size of a Resize."""
    over, under = float(np.float32(scale)).as_integer_ratio()
    found = computed(np.multiply, TensorProto.FLOAT, size, ratio(over, under))
    return None if found is None else floor(found)


def floor(number: Number) -> Size:
    """The floor: of a quotient of integers below 2^24, whose float does not pass the next integer."""
    return floor_div(*_parts(number))


def ceil(number: Number) -> Size:
    """The ceiling."""
    over, under = _parts(number)
    return -floor_div(-over, under)


def truncated(number: Number) -> Size | None:
    """The integer after a cast, which rounds towards 0; None if the sign is unknown."""
    if not isinstance(number, Ratio):
        return number
    over, under = number.over, number.under
    if at_least(under, 0) and at_least(over, 0):
        return floor(number)
    return ceil(number) if at_least(under, 0) and at_least(0, over) else None


def _parts(number: Number) -> tuple[Size, Size]:
    return (number.over, number.under) if isinstance(number, Ratio) else (number, 1)
