"""Inputs moved by units in the last place, like earlier rounding might do."""

import zlib
from collections.abc import Collection, Mapping

import ml_dtypes
import numpy as np

from surgeon.runtime.numerics.array_comparison import TOLERANCES, dtype_name
from surgeon.runtime.numerics.sensitivity import spacing, widen_narrow_float


def perturb_by_ulp(
    feeds: Mapping[str, np.ndarray], whole: Collection[str] = (), turn: int = 0
) -> dict[str, np.ndarray]:
    """Return the inputs with every float moved to the next number of its dtype, randomly up or down.

    turn: seed of the directions.  Zeros, infinities and NaN stay.  So do integers, which often have a meaning (masks,
    counts in floats), except in inputs named in `whole`.  No number becomes infinite.
    """
    return {name: _moved(array, _seed(name, turn), name in whole) for name, array in feeds.items()}


def perturb_by_units(
    feeds: Mapping[str, np.ndarray], whole: Collection[str], turn: int, by: float
) -> dict[str, np.ndarray]:
    """Like `perturb_by_ulp`, but in float64 and by any number of units; the directions depend only on the turn."""
    return {name: _moved_apart(array, _seed(name, turn), name in whole, by) for name, array in feeds.items()}


def _seed(name: str, turn: int) -> int:
    return zlib.crc32(name.encode()) + turn


def is_real(array: np.ndarray) -> bool:
    """Whether an array contains floats that can be moved."""
    return dtype_name(array) in TOLERANCES and array.dtype.kind != "c"


def _stays(array: np.ndarray, whole: bool) -> np.ndarray:
    stays = ~np.isfinite(array) | (array == 0)
    return np.asarray(stays if whole else stays | (array == np.round(array)))


def _up(array: np.ndarray, seed: int) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).random(array.shape) < 0.5)


def _moved(array: np.ndarray, seed: int, whole: bool) -> np.ndarray:
    if not is_real(array):
        return array
    with np.errstate(all="ignore"):
        ends = np.where(_up(array, seed), np.inf, -np.inf)
        # Formats without infinity have NaN instead, which has no next number.
        limit = float(ml_dtypes.finfo(array.dtype).max)
        ends = np.clip(ends, -limit, limit).astype(array.dtype)
        return np.asarray(np.where(_stays(array, whole), array, np.nextafter(array, ends)), dtype=array.dtype)


def _moved_apart(array: np.ndarray, seed: int, whole: bool, by: float) -> np.ndarray:
    if not is_real(array):
        return array
    with np.errstate(all="ignore"):
        wide = widen_narrow_float(array).astype(np.float64)
        step = by * spacing(wide, array.dtype)
        return np.where(_stays(wide, whole), wide, wide + np.where(_up(array, seed), step, -step))
