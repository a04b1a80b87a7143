"""Bits of integers by arithmetic: a bit is the remainder by 2 of the quotient by a power of 2."""

from collections.abc import Callable
from typing import Any

import numpy as np

from surgeon import Graph, Match, Tensor, require, rule

WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32}
HALF = 32  # each half of a 64-bit integer is computed separately
Combine = Callable[[Graph, Any, Any], Any]
COMBINED: dict[str, Combine] = {
    "BitwiseAnd": lambda g, a, b: g.mul(a, b),
    "BitwiseOr": lambda g, a, b: g.sub(g.add(a, b), g.mul(a, b)),
    "BitwiseXor": lambda g, a, b: g.mod(g.add(a, b), int64(2)),
}


def int64(value: Any) -> np.ndarray[Any, Any]:
    """Return a number, or several, in int64."""
    return np.array(value, np.int64)


def width_of(x: Tensor) -> int:
    """Return the number of bits of an integer dtype."""
    require(str(x.dtype) in WIDTHS, f"only integers of at most 64 bits are supported, but the dtype is {x.dtype}")
    return WIDTHS[str(x.dtype)]


def is_signed(x: Tensor) -> bool:
    """Return whether one of the bits is the sign."""
    return not str(x.dtype).startswith("u")


def of_bits(g: Graph, sides: list[Tensor], width: int, combine: Combine, *, signed: bool) -> Tensor:
    """Combine two integers bit by bit.  Each is in int64 and at most 32 bits wide."""
    powers, whole = int64([2**place for place in range(width)]), int64(2**width)

    def bits(x: Tensor) -> Tensor:
        return g.mod(g.div(g.unsqueeze(g.mod(x, whole), int64([-1])), powers), int64(2))

    made = g.reduce_sum(g.mul(combine(g, *map(bits, sides)), powers), int64([-1]), keepdims=0)
    if not signed:
        return made
    return g.where(g.less(made, int64(2 ** (width - 1))), made, g.sub(made, whole))


def both(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """BitwiseAnd."""
    return g.bitwise_and(x, y)


def either(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """BitwiseOr."""
    return g.bitwise_or(x, y)


def one_of(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """BitwiseXor."""
    return g.bitwise_xor(x, y)


@rule(patterns=[both, either, one_of], target="any", opset=18, lacking=True)
def bitwise(g: Graph, match: Match, x: Tensor, y: Tensor) -> Tensor:
    """Write BitwiseAnd, BitwiseOr and BitwiseXor as sums of bits.

    What: bitwise ops on two integers, if the target does not support them.  Each bit temporarily becomes an int64
    element.
    Numerics: none.
    """
    width, combine = width_of(x), COMBINED[match.root.op]
    a, b = (g.cast(one, to="int64") for one in (x, y))
    if width <= HALF:
        return g.cast(of_bits(g, [a, b], width, combine, signed=is_signed(x)), to=str(x.dtype))
    step = int64(2**HALF)
    low = [g.mod(one, step) for one in (a, b)]
    high = [g.div(g.sub(one, rest), step) for one, rest in zip((a, b), low, strict=True)]
    upper = of_bits(g, high, HALF, combine, signed=True)
    return g.add(g.mul(upper, step), of_bits(g, low, HALF, combine, signed=False))


def inverted(g: Graph, x: Tensor) -> Tensor:
    """BitwiseNot."""
    return g.bitwise_not(x)


@rule(patterns=[inverted], target="any", opset=18, lacking=True)
def bitwise_not(g: Graph, x: Tensor) -> Tensor:
    """Write BitwiseNot as a difference.

    What: −1 − x, or the largest integer minus x for unsigned dtypes, if the target does not support bitwise ops.
    Numerics: none.
    """
    width = width_of(x)
    most = -1 if is_signed(x) else 2**width - 1
    return g.cast(g.sub(int64(most), g.cast(x, to="int64")), to=str(x.dtype))


def shifted(g: Graph, x: Tensor, y: Tensor, direction: str) -> Tensor:
    """BitShift."""
    return g.bit_shift(x, y, direction=direction)


@rule(patterns=[shifted], target="any", opset=11, lacking=True)
def bit_shift(g: Graph, x: Tensor, y: Tensor, direction: str) -> Tensor:
    """Write BitShift as a product with a power of 2, or a quotient.

    What: shifts of integers of at most 32 bits, by fewer bits than they have, if the target does not support bitwise
    ops.
    Numerics: none.
    """
    width = width_of(x)
    require(width <= HALF, f"only integers of at most {HALF} bits are supported")
    powers = g.gather(int64([2**place for place in range(width)]), g.cast(y, to="int64"))
    wide = g.cast(x, to="int64")
    made = g.mod(g.mul(wide, powers), int64(2**width)) if direction == "LEFT" else g.div(wide, powers)
    return g.cast(made, to=str(x.dtype))
