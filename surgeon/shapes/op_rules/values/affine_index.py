"""Affine indices: integer tensors whose elements are affine functions of their indices, such as a Range.

The element at (i0, i1, ...) is offset + Σ strides[k] · ik, with sizes as offset and strides.  This module is their
arithmetic; `symbolic_elements` finds them in a graph.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from surgeon.shapes.algebra.integer_width import fits
from surgeon.shapes.algebra.size_expressions import Expr, Size, at_least, product, symbol
from surgeon.shapes.tensor_types import Shape

PLACES = symbol("places")  # of an axis


class AffineIndex(NamedTuple):
    """An integer tensor whose elements are affine functions of their indices."""

    offset: Size
    """The first element."""
    strides: tuple[Size, ...]
    """The step along each axis; 0 on axes of size 1."""

    @property
    def is_constant(self) -> bool:
        """Whether all elements are equal."""
        return not any(stride != 0 for stride in self.strides)

    def fits(self, dtype: int) -> bool:
        """Whether integers of a dtype represent all elements along axes of usual sizes, without overflow."""
        return fits(self.offset, dtype) and all(fits(stride * PLACES, dtype) for stride in self.strides)

    def plus(self, other: "AffineIndex", factor: Size = 1) -> "AffineIndex":
        """The sum with `factor` times another index of the same rank."""
        pairs = zip(self.strides, other.strides, strict=True)
        return AffineIndex(self.offset + other.offset * factor, tuple(a + b * factor for a, b in pairs))

    def plus_number(self, number: Size) -> "AffineIndex":
        """The sum with a number."""
        return AffineIndex(self.offset + number, self.strides)

    def times(self, factor: Size) -> "AffineIndex":
        """All elements multiplied."""
        return AffineIndex(self.offset * factor, tuple(stride * factor for stride in self.strides))

    def least(self, shape: Shape) -> Size | None:
        """A lower bound of all elements for this shape; None if the sign of a stride is unknown."""
        total = self.offset
        for stride, size in zip(self.strides, shape, strict=True):
            if at_least(0, stride):
                total = total + stride * (size - 1)
            elif not at_least(stride, 0):
                return None
        return total

    def is_at_least(self, bound: Size, shape: Shape) -> bool:
        """Whether all elements are provably at least a bound, for this shape."""
        least = self.least(shape)
        return least is not None and at_least(least, bound)


def normal(offset: Size, strides: Sequence[Size], shape: Shape) -> AffineIndex:
    """An affine index with strides of 0 on axes of size 1."""
    return AffineIndex(offset, tuple(0 if size == 1 else stride for stride, size in zip(strides, shape, strict=True)))


def of_array(array: "np.ndarray[Any, Any]") -> AffineIndex | None:
    """An array of integers or sizes as an affine index, or None."""
    if not array.size:
        return None
    first = array[(0,) * array.ndim]
    axes = range(array.ndim)
    steps = [array[tuple(int(at == axis) for at in axes)] - first if array.shape[axis] > 1 else 0 for axis in axes]
    plain = array.dtype.kind in "iu"
    made = np.full(array.shape, first, array.dtype)
    for axis, step in enumerate(steps):
        run = np.arange(array.shape[axis]).astype(array.dtype) * step
        made = made + run.reshape([-1 if at == axis else 1 for at in axes])
    if not np.array_equal(made, array):
        return None
    found = [int(item) if plain else item for item in (first, *steps)]
    is_whole = all(isinstance(item, (int, Expr)) and not isinstance(item, bool) for item in found)
    return AffineIndex(found[0], tuple(found[1:])) if is_whole else None


def spread(found: AffineIndex, shape: Shape, wanted: Shape) -> AffineIndex | None:
    """The index broadcast to another shape; None if a size may or may not be 1."""
    added = len(wanted) - len(shape)
    strides: list[Size] = [0] * added
    for stride, size, target in zip(found.strides, shape, wanted[added:], strict=True):
        if stride != 0 and size != target:
            return None
        strides.append(stride)
    return AffineIndex(found.offset, tuple(strides))


def spreading(shape: Shape, wanted: Shape) -> Callable[[AffineIndex], AffineIndex | None]:
    """`spread` between two shapes."""
    return lambda found: spread(found, shape, wanted)


def regrouped(found: AffineIndex, shape: Shape, wanted: Shape) -> AffineIndex | None:
    """The index after a reshape that adds or removes axes of size 1; None for other reshapes."""
    if found.is_constant:
        return AffineIndex(found.offset, (0,) * len(wanted))
    kept = [(size, stride) for size, stride in zip(shape, found.strides, strict=True) if size != 1]
    if [size for size, _ in kept] != [size for size in wanted if size != 1]:
        return None
    left = iter(kept)
    return AffineIndex(found.offset, tuple(0 if size == 1 else next(left)[1] for size in wanted))


def sliced(
    found: AffineIndex, shape: Shape, made: Shape, axis: int, start: Size | None, step: int
) -> AffineIndex | None:
    """The index of a forward slice along one axis; `made` is its shape."""
    stride, size = found.strides[axis], shape[axis]
    if stride == 0:
        return found
    if start is None or step < 1:
        return None
    if not at_least(start, 0):
        if start != -1 and not (at_least(-1, start) and at_least(size + start, 0)):  # an empty axis has no last element
            return None
        start = start + size
    strides = [*found.strides[:axis], stride * step, *found.strides[axis + 1 :]]
    return normal(found.offset + start * stride, strides, made)


def split_by_axis(found: AffineIndex, own: Shape) -> list[AffineIndex] | None:
    """A flat index into a tensor as one index per axis, if each stride belongs to one axis, in order."""
    if found.offset != 0:
        return None
    steps, at = [], 0
    for axis, size in enumerate(own):
        mine: list[Size] = [0] * len(found.strides)
        if size != 1:
            while at < len(found.strides) and found.strides[at] == 0:
                at += 1
            if at == len(found.strides) or found.strides[at] != product(own[axis + 1 :]):
                return None
            mine[at] = 1
            at += 1
        steps.append(AffineIndex(0, tuple(mine)))
    return steps if not any(stride != 0 for stride in found.strides[at:]) else None


def picked(found: AffineIndex, columns: Sequence[AffineIndex]) -> AffineIndex:
    """The index of gathered elements.  columns: an index along each axis."""
    made = columns[0].times(0).plus_number(found.offset)
    for stride, column in zip(found.strides, columns, strict=True):
        made = made.plus(column, stride)
    return made


def joined(parts: Sequence[tuple[AffineIndex, Shape]], axis: int) -> AffineIndex | None:
    """The index of concatenated tensors, if each continues the one before."""
    (first, shape), (second, _) = parts[0], parts[min(1, len(parts) - 1)]
    steps = [found.strides[axis] for found, _ in parts if found.strides[axis] != 0]
    step: Size = steps[0] if steps else second.offset - first.offset if shape[axis] == 1 else 0
    strides = (*first.strides[:axis], step, *first.strides[axis + 1 :])
    start: Size = 0
    for found, sizes in parts:
        own = (*found.strides[:axis], step if sizes[axis] == 1 else found.strides[axis], *found.strides[axis + 1 :])
        if own != strides or found.offset != first.offset + start * step:
            return None
        start = start + sizes[axis]
    return AffineIndex(first.offset, strides)
