"""Outputs of a segment for activations far from those of the runs, if it divides or takes a root.

A norm gives the same for activations of 300 and of 1e-4, and its squares leave float16 at both.  Generated inputs show
neither.  A segment runs at these magnitudes if its outputs grow no faster than its inputs, at the observed magnitude
and there, as those of a norm.  If a product of two activations overflows, such as scores of an attention, nothing is
decided, because the model may never have such activations.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from surgeon.file.tensors.casting import cast_array, finite_limits, smallest
from surgeon.ops.traits.dtype_traits import STEEP_NEAR_ZERO
from surgeon.ops.traits.trait_lookup import traits_of

Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays], Mapping[str, np.ndarray]]
SIZES = (300.0, 1e-4)
"""Largest activations after scaling: hidden states of trained models reach both."""
GROSS = 0.05
"""Relative error that counts as gross: near its least number half precision has few digits; a lost square costs all."""
_ALIKE = 0.02  # rounding tolerance of the growth of an output
_SHOWN = 1e-2  # relative magnitude from which elements show the growth of an output


def divides(op: str, inputs: Sequence[str], stored: Collection[str]) -> bool:
    """Whether a node takes a root or a logarithm, or has a computed divisor."""
    return op in STEEP_NEAR_ZERO or any(
        inputs[place] not in stored for place in traits_of(op).algebra.divisors if place < len(inputs)
    )


def grows_slowly(large: np.ndarray, small: np.ndarray, new: int) -> bool:
    """Whether twice the inputs give one to two times the output, and it fits the new dtype."""
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


class ScaledActivations:
    """A segment whose inputs are scaled.

    exact: runs it in float64.  feeds: its observed inputs.  names: of the inputs to scale, all by one factor; fill
    values of masks stay.  new: the dtype of the segment.
    """

    def __init__(self, exact: Run, feeds: Arrays, names: Collection[str], new: int) -> None:
        self._exact, self._feeds, self._new = exact, feeds, new
        self._low = finite_limits(new)[0] / 4
        self._wide = {name: np.asarray(feeds[name]).astype(np.float64) for name in names}
        seen = (np.abs(array[np.isfinite(array) & (array > self._low)]) for array in self._wide.values())
        self._most = max((float(array.max(initial=0.0)) for array in seen), default=0.0)

    def worst(self, ways: Sequence[Run], relative_error: Callable[..., float]) -> tuple[float, float, str] | None:
        """The first output with a gross error: the relative error, the magnitude of the activations, and its name.

        ways: the runs of the segment in the new dtype.  relative_error: the error of an array.
        """
        slow = set(self._slow(self._most)) if self._most else set()
        for size in SIZES if slow else ():
            expected = {name: array for name, array in self._slow(size).items() if name in slow}
            for run in ways if expected else ():
                found = run(self._scaled(size))
                for name, array in expected.items():
                    error = relative_error(array, found[name], self._new) if name in found else 0.0
                    if error > GROSS:
                        return error, size, name
        return None

    def _slow(self, size: float) -> dict[str, np.ndarray]:
        """Exact outputs for activations of a magnitude, if they grow slowly."""
        large, small = (self._exact(self._scaled(part)) for part in (size, size / 2))
        return {name: array for name, array in large.items() if grows_slowly(array, small[name], self._new)}

    def _scaled(self, size: float) -> Arrays:
        """The inputs with the largest activation scaled to a magnitude."""
        factor = size / self._most
        made = {name: np.where(array > self._low, array * factor, array) for name, array in self._wide.items()}
        return {**self._feeds, **{name: cast_array(array, self._new) for name, array in made.items()}}
