"""Activations far from those that the runs showed: what a stretch that divides or takes a root answers there.

A norm answers alike for activations of 300 and of 1e-4, and its squares leave float16 at both.  Made inputs show
neither.  A stretch is tried there as far as its answers grow no faster than its inputs, at the sizes that were seen
and at those: as a norm's do.  Where a product of two activations overflows, as scores of an attention do, nothing is
known, for the model may never have such.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from surgeon.file.tensors.casting import cast_array, finite_limits, smallest
from surgeon.ops.traits.dtype_traits import STEEP_NEAR_ZERO
from surgeon.ops.traits.trait_lookup import traits_of

Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays], Mapping[str, np.ndarray]]
SIZES = (300.0, 1e-4)
"""What the largest activation is scaled to: hidden states of trained models reach both."""
GROSS = 0.05
"""Of an answer's scale: close to its least number half precision has few digits, and a lost square costs all."""
_ALIKE = 0.02  # by which an answer may grow faster than its inputs, or fall, as rounding makes it
_SHOWN = 1e-2  # of the largest element: smaller ones say little of how fast an answer grows


def divides(op: str, inputs: Sequence[str], stored: Collection[str]) -> bool:
    """Whether a node takes a root or a logarithm, or divides by what is computed."""
    return op in STEEP_NEAR_ZERO or any(
        inputs[place] not in stored for place in traits_of(op).algebra.divisors if place < len(inputs)
    )


def grows_slowly(large: np.ndarray, small: np.ndarray, new: int) -> bool:
    """Whether an answer to inputs twice as large is as large or up to twice as large, and fits the new dtype."""
    if large.shape != small.shape or large.dtype != np.float64 or not large.size:
        return False
    if not (np.isfinite(large).all() and np.isfinite(small).all()):
        return False
    size = np.abs(large)
    most = size.max()
    if not smallest(new) <= most <= finite_limits(new)[1]:
        return False
    shown = size > _SHOWN * most
    with np.errstate(divide="ignore", invalid="ignore"):
        times = large[shown] / small[shown]
    return bool(np.all((times > 1 - _ALIKE) & (times < 2 + 2 * _ALIKE)))


class Far:
    """A stretch whose inputs are scaled.

    exact: runs it in float64.  feeds: its inputs as they were seen.  names: of those that are scaled, all by one
    factor; what is as low as the fills of masks stays.  new: the dtype that it is to be of.
    """

    def __init__(self, exact: Run, feeds: Arrays, names: Collection[str], new: int) -> None:
        self._exact, self._feeds, self._new = exact, feeds, new
        self._low = finite_limits(new)[0] / 4
        self._wide = {name: np.asarray(feeds[name]).astype(np.float64) for name in names}
        seen = (np.abs(array[np.isfinite(array) & (array > self._low)]) for array in self._wide.values())
        self._most = max((float(array.max(initial=0.0)) for array in seen), default=0.0)

    def worst(self, ways: Sequence[Run], apart: Callable[..., float]) -> tuple[float, float, str] | None:
        """The first output that is off grossly: by how much of its scale, at activations of which size, and its name.

        ways: what runs the stretch in the new dtype.  apart: how far an array is from what it should be.
        """
        slow = set(self._slow(self._most)) if self._most else set()
        for size in SIZES if slow else ():
            told = {name: array for name, array in self._slow(size).items() if name in slow}
            for run in ways if told else ():
                found = run(self._scaled(size))
                for name, array in told.items():
                    error = apart(array, found[name], self._new) if name in found else 0.0
                    if error > GROSS:
                        return error, size, name
        return None

    def _slow(self, size: float) -> dict[str, np.ndarray]:
        """Exact answers to activations of a size, of those outputs that grow slowly there."""
        large, small = (self._exact(self._scaled(part)) for part in (size, size / 2))
        return {name: array for name, array in large.items() if grows_slowly(array, small[name], self._new)}

    def _scaled(self, size: float) -> Arrays:
        """The inputs with the largest activation of a size."""
        factor = size / self._most
        made = {name: np.where(array > self._low, array * factor, array) for name, array in self._wide.items()}
        return {**self._feeds, **{name: cast_array(array, self._new) for name, array in made.items()}}
