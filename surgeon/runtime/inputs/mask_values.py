"""What masks hide: holes at random, and whole rows, whichever of a mask's two values hides."""

import ml_dtypes
import numpy as np

_PART = 0.4  # of what may be hidden is so
_LOWS = (None, -np.inf, -1e4)  # what hides a score in turn; None: the least number of its dtype
WAYS_TO_HIDE = len(_LOWS)


def random_mask(
    shape: tuple[int, ...], seed: int, random: np.random.Generator, *, rows: bool, apart: bool = False
) -> np.ndarray:
    """Which elements are hidden, as 0 and 1, int64 of `shape`: holes along the last axis, some of each row shown.

    rows: of some rows all is hidden, and of some nothing, so that there are such whatever the values mean; in one of
    four seeds all is hidden.  Without, in odd seeds nothing is hidden at all.  apart: the first of each row is shown,
    and no two side by side are hidden, so that of two neighbours at least something is seen; in all seeds.
    """
    if not shape or not np.prod(shape):
        return np.zeros(shape, np.int64)
    if not (rows or apart) and seed % 2:
        return np.zeros(shape, np.int64)
    if rows and seed % 4 == 3:
        return np.ones(shape, np.int64)
    found = (random.random(shape) < _PART).reshape(-1, shape[-1])
    if apart:
        found[:, ::2] = False
    else:
        found[np.arange(len(found)), random.integers(0, shape[-1], len(found))] = False
    if rows:
        found[0] = seed % 2 == 0
        if len(found) > 1:
            found[-1] = seed % 2 == 1
            found[len(found) // 2] = seed % 2 == 0
    return found.reshape(shape).astype(np.int64)


def low_of(dtype: np.dtype, seed: int) -> float:
    """What hides a score in floats of a dtype: its least number, minus infinity, or -1e4."""
    low = _LOWS[seed % len(_LOWS)]
    least = float(ml_dtypes.finfo(dtype).min)
    return least if low is None else max(low, least) if np.isfinite(low) else low


def hides_endlessly(seed: int) -> bool:
    """Whether it is minus infinity: a row of which all is hidden gives NaN."""
    return _LOWS[seed % len(_LOWS)] == -np.inf
