"""Values of masks: random holes, and whole hidden rows, whichever of a mask's two values hides."""

import ml_dtypes
import numpy as np

_PART = 0.4  # of what may be hidden is so
_LOWS = (None, -np.inf, -1e4)  # what hides a score in turn; None: the least number of its dtype
WAYS_TO_HIDE = len(_LOWS)


def random_mask(
    shape: tuple[int, ...], seed: int, random: np.random.Generator, *, rows: bool, apart: bool = False
) -> np.ndarray:
    """Return a mask, int64 zeros and ones of `shape`: random zeros along the last axis, with a one in each row.

    rows: some rows are all zeros and some all ones, so that both occur whatever the values mean; in one of four seeds
    all are zeros.  Without it, odd seeds give only ones.  apart: in all seeds, the first element of each row is one,
    and no two neighbours are zero.
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
    """The number that hides a score in a float dtype: its lowest number, minus infinity, or -1e4."""
    low = _LOWS[seed % len(_LOWS)]
    least = float(ml_dtypes.finfo(dtype).min)
    return least if low is None else max(low, least) if np.isfinite(low) else low


def hides_endlessly(seed: int) -> bool:
    """Whether that number is minus infinity, so that a fully hidden row gives NaN."""
    return _LOWS[seed % len(_LOWS)] == -np.inf
