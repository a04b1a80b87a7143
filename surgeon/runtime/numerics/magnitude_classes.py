"""Classes of magnitude, so that each number of a tensor is judged relative to similar ones."""

from collections.abc import Mapping

import numpy as np

# Powers of two in one class: a number is at least 1/256 of the largest of its class.  So the tolerance of float32, 2e-5
# of the largest, is at most half a per cent of the number.
BINADES = 8
# Times the lowest decile: larger numbers are mask values or outliers.  The largest of a million normal numbers is 40
# times their lowest decile.
_ORDINARY = 2.0**7
_TENTH = 0.1  # the lowest decile, so that a few zeros or tiny numbers do not matter


class MagnitudeClasses:
    """The finite numbers of one tensor, flat, by magnitude.

    scale: the largest magnitude of each class.  largest: that of all numbers.  usual: that of all numbers except those
    far above the others, such as mask values.  The first class contains the zeros.  There are few classes (doubles have
    2,100 powers of two), so values are computed by class and `spread` to the elements.
    """

    def __init__(self, magnitude: np.ndarray, finite: np.ndarray) -> None:
        """Class magnitudes, float64 of any shape; elements that are not `finite` do not matter."""
        positive = finite & (magnitude > 0)
        counted = magnitude[positive]
        self.largest = float(counted.max(initial=0.0))
        below = int(_TENTH * (counted.size - 1))
        tenth = float(np.partition(counted, below)[below]) if counted.size else 0.0
        self.usual = min(self.largest, _ORDINARY * tenth)
        with np.errstate(all="ignore"):
            powers = np.frexp(self.largest)[1] - np.frexp(magnitude)[1]
        self._numbers = np.where(magnitude > 0, np.maximum(powers // BINADES, 0) + 1, 0).astype(np.uint16)
        self._finite = None if finite.all() else finite
        self._count = int(self._numbers.max(initial=0)) + 1
        judged = self._judged(self._numbers)
        # Largest values of classes are needed often, and are fast if each class is contiguous.
        self._order: np.ndarray | slice = slice(None)
        if judged.size and judged.min() == self._count - 1:  # one class: most tensors are alike
            self._held, self._starts = judged[:1], np.zeros(1, np.intp)
        else:
            order = np.argsort(judged, kind="stable")
            self._held, self._starts = np.unique(judged[order], return_index=True)
            self._order = order if len(self._held) > 1 else slice(None)
        self.scale = self.largest_of(magnitude)

    def largest_of(self, values: np.ndarray) -> np.ndarray:
        """The largest of these values (or of a scalar) over the finite elements of each class; 0 without any."""
        found = np.zeros(self._count)
        if not values.ndim:
            found[self._held] = np.maximum(values, 0.0)
        elif len(self._held):
            together = self._judged(values)[self._order]
            found[self._held] = np.maximum(np.maximum.reduceat(together, self._starts), 0.0)
        return found

    def _judged(self, values: np.ndarray) -> np.ndarray:
        """The values of the finite elements, flat."""
        return values.reshape(-1) if self._finite is None else np.asarray(values[self._finite])

    def spread(self, of_classes: np.ndarray) -> np.ndarray:
        """The value of each element's class."""
        if len(self._held) == 1 and self._finite is None:  # most tensors have one class
            return np.full(self._numbers.shape, of_classes[self._held[0]])
        return np.asarray(of_classes[self._numbers])


def input_magnitude(shape: tuple[int, ...], feeds: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The largest magnitude, up to 1, of the inputs of each element of an elementwise result of `shape`.

    feeds: all inputs.  None if one is not a float, or has a shape that does not broadcast.
    """
    found = np.zeros(shape)
    for array in feeds.values():
        if array.dtype.kind in "biucOUS":
            return None
        try:
            given = np.broadcast_to(np.abs(array.astype(np.float64)), shape)
        except ValueError:
            return None
        found = np.fmax(found, given)
    return np.minimum(found, 1.0)
