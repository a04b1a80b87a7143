"""How far kernels of a region's operators may err, in any region."""

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.runtime.numerics.magnitude_classes import input_magnitude


def _some(ops: Iterable[str], is_so: Callable[[OpTraits], object]) -> bool:
    return any(is_so(traits_of(op)) for op in ops)


def begins_at_zero(ops: Iterable[str]) -> bool:
    """Whether one of these operators adds up numbers: a kernel may start at its own zero, whose sign then counts."""
    return _some(ops, lambda op: op.numerics.accumulates or op.products.kind)


def has_absolute_error(op: OpTraits) -> bool:
    """Whether kernels of an operator have an absolute error, or one of the values between positions.

    Small results are lost in that error, unless both sides of a region have equal nodes of such operators.
    """
    return op.numerics.error_is_absolute or op.indexing.reads_coordinates


def absolute_error(ops: Collection[str], shape: tuple[int, ...], feeds: Mapping[str, np.ndarray]) -> float | np.ndarray:
    """The absolute error that kernels of these operators may have: one for all elements of `shape`, or one for each.

    It shrinks with the inputs if all inputs are below one, for operators of which all errors do.
    """
    if not _some(ops, has_absolute_error):
        return 0.0
    is_scaled = not _some(ops, lambda op: not op.numerics.error_is_input_scaled)
    part = input_magnitude(shape, feeds) if is_scaled else None
    return 1.0 if part is None else part
