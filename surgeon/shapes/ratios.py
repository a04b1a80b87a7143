"""Ratios of sizes: what a float holds on the way from one integer to another, as in `int(ceil(height / 32.0))`.

A float that is whole is a plain size.  Constants are taken for the nearest simple fraction, as 0.1 is meant for 1/10.
"""

from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from surgeon.shapes.symbols import Size, SizeError, at_least, exact_quotient, floor_div

LARGEST_DIVISOR, LARGEST_NUMBER = 10_000, 2**53


@dataclass(frozen=True, slots=True)
class Ratio:
    """over / under, two sizes that do not divide."""

    over: Size
    under: Size

    def __add__(self, other: "Number") -> "Number":
        over, under = _parts(other)
        return ratio(self.over * under + over * self.under, self.under * under)

    __radd__ = __add__

    def __neg__(self) -> "Ratio":
        return Ratio(-self.over, self.under)

    def __sub__(self, other: "Number") -> "Number":
        return self + -other

    def __rsub__(self, other: "Number") -> "Number":
        return -self + other

    def __mul__(self, other: "Number") -> "Number":
        over, under = _parts(other)
        return ratio(self.over * over, self.under * under)

    __rmul__ = __mul__


Number: TypeAlias = Size | Ratio


def ratio(over: Size, under: Size) -> Number:
    """over / under; a plain size where that is whole.  Raises SizeError for a divisor of 0."""
    if under == 0:
        raise SizeError("A size is divided by 0; give the dimensions other sizes.")
    exact = exact_quotient(over, under)
    return Ratio(over, under) if exact is None else exact


def quotient(number: Number, divisor: Number) -> Number:
    """The quotient of two floats."""
    (over, under), (other, beside) = _parts(number), _parts(divisor)
    return ratio(over * beside, under * other)


def of_float(number: float) -> Number | None:
    """The nearest simple fraction to a float; None for what is no number, or too large for one of a size."""
    if not isfinite(number) or abs(number) > LARGEST_NUMBER:
        return None
    return ratio(*nearest(number, LARGEST_DIVISOR))


def nearest(number: float, largest: int) -> tuple[int, int]:
    """Numerator and denominator of the fraction nearest to a float, with no larger denominator than this."""
    from fractions import Fraction  # not at the top: it takes decimals with it, and few graphs hold such a float

    return Fraction(number).limit_denominator(largest).as_integer_ratio()


def floor(number: Number) -> Size:
    """The largest integer not above."""
    return floor_div(*_parts(number))


def ceil(number: Number) -> Size:
    """The smallest integer not below."""
    over, under = _parts(number)
    return -floor_div(-over, under)


def truncated(number: Number) -> Size | None:
    """The integer that a cast makes, which rounds towards 0; None where the sign is unknown."""
    if not isinstance(number, Ratio):
        return number
    over, under = number.over, number.under
    if at_least(under, 0) and at_least(over, 0):
        return floor(number)
    return ceil(number) if at_least(under, 0) and at_least(0, over) else None


def _parts(number: Number) -> tuple[Size, Size]:
    return (number.over, number.under) if isinstance(number, Ratio) else (number, 1)
