"""A fill: one way to fill one input, with a name and the public kinds of inputs that it belongs to."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from surgeon.runtime.inputs.input_spec import InputSpec

Shape: TypeAlias = tuple[int, ...]
DECLARABLE = (
    *("zeros", "denormals", "extreme", "non_finite", "constant_rows", "offset", "small", "magnitudes"),
    *("holes", "hidden_rows", "backwards", "wide", "large"),
)
"""Kinds of inputs for which a rule may declare that its result differs (`differs=`)."""


class Blank(NamedTuple):
    """An array that a fill fills."""

    spec: InputSpec
    """The input."""
    shape: Shape
    """Shape of the array: of the input, or of the rows that hold this fill, rows first."""
    sizes: Mapping[str, int]
    """Sizes by the names of the model's dims, for example the length of a sequence."""
    random: np.random.Generator
    """Seeded by the options' seed, the strategy and the input."""

    @property
    def narrow(self) -> np.dtype:
        """The dtype whose range limits the numbers: float16 if the model computes in it."""
        dtype = self.spec.dtype
        return np.dtype(np.float16) if self.spec.half and dtype.itemsize > 2 else dtype


class Fill(NamedTuple):
    """How one input is filled."""

    name: str
    """Name for messages."""
    make: Callable[[Blank], np.ndarray]
    """Returns an array of the blank's shape, which is then rounded to the input's dtype."""
    kinds: tuple[str, ...] = ()
    """The public kinds of inputs (`differs=`) that it belongs to; a rule that differs for one does not run on it."""
    may_overflow: bool = False
    """Whether the numbers are finite but so large that results may overflow."""
    may_not_fit: bool = False
    """Whether sizes that depend on the values may contradict the shapes in the source."""
    decides: bool = False
    """Whether results jump exactly at the numbers, so that rounding noise must be measured near them."""


Fills: TypeAlias = Mapping[str, Fill]
"""Fills by input; inputs without one are filled as usual."""


def fill_array(fill: Fill, blank: Blank) -> np.ndarray:
    """The array of a fill in the input's dtype and the blank's shape."""
    dtype = np.dtype(object) if blank.spec.kind == "words" else blank.spec.dtype
    if 0 in blank.shape:  # nothing to fill, and no rows to fill apart
        return np.empty(blank.shape, dtype)
    with np.errstate(invalid="ignore", over="ignore"):  # narrow floats have no infinity: it becomes NaN
        return np.asarray(fill.make(blank)).astype(dtype).reshape(blank.shape)
