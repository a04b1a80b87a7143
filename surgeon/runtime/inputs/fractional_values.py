"""Floats that a model reads as integers or booleans: between two of them, halfway, negative, and NaN."""

import numpy as np

TURNS = 4
OF_NAN = 2
"""Which of the turns holds NaN."""
FINITE = (0, 1, 3)
"""The others."""
_MIN_PART, _MAX_PART = 0.05, 0.95  # part of a step: far from an integer in float16 too
_BELOW, _ABOVE = 0.3, 0.7  # rounding moves them to different sides


def fractional(whole: np.ndarray, turn: int, random: np.random.Generator) -> np.ndarray:
    """Return floats near these integers, in one of `TURNS` ways; the same shape, float64.

    By turn: between an integer and the one before it, so that no rounding leaves the range of an index; halfway between
    them; the integer, with NaN at about a quarter of the elements and at the first; next to the integer on either side,
    where rounding may leave the range, with some -0.3.
    """
    made = np.asarray(whole, np.float64)
    way = turn % TURNS
    if way == OF_NAN:
        holes = random.random(made.shape) < 1 / 4
        holes.reshape(-1)[:1] = True
        return np.where(holes, np.nan, made)
    if way == TURNS - 1:
        beside = np.asarray(made + random.choice((-_BELOW, _BELOW, _ABOVE), made.shape))
        beside.reshape(-1)[1:2] = -_BELOW
        return beside
    part = random.uniform(_MIN_PART, _MAX_PART, made.shape) if way == 0 else np.full(made.shape, 0.5)
    return np.asarray(np.where(made >= 1, made - part, made + part))
