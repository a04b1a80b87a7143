"""Affine masks: tensors of two values, in which the index of an element determines its value.

A causal mask has one value if i − j ≥ 0 for row i and column j, and another elsewhere.  This module computes the
results of ops on such tensors; `symbolic_elements` finds them in a graph.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from surgeon.shapes.op_rules.values.affine_index import AffineIndex, spreading
from surgeon.shapes.tensor_types import Shape

MAX_BOUNDS = 8


class AffineMask(NamedTuple):
    """A tensor of two values; the index of an element determines its value."""

    inside: Any
    """The value if every bound is at least 0, as a numpy scalar of the tensor's dtype."""
    outside: Any
    """The value of all other elements; equal to `inside` without bounds."""
    bounds: tuple[AffineIndex, ...]
    """Affine indices with the tensor's axes; empty if all elements are equal."""

    @property
    def is_uniform(self) -> bool:
        """Whether all elements are equal."""
        return not self.bounds

    @property
    def opposite(self) -> "AffineMask | None":
        """The same tensor with inside and outside exchanged; None for more than one bound."""
        if len(self.bounds) != 1:
            return None
        return AffineMask(self.outside, self.inside, (self.bounds[0].times(-1).plus_number(-1),))

    def is_in_each_row(self, holds: Callable[[Any], bool], shape: Shape) -> bool:
        """Whether a condition provably holds for some element of each row, for this shape.

        It is tested at the first elements of the rows, and at the last ones before a diagonal.
        """
        inside, outside = holds(self.inside), holds(self.outside)
        if not shape:
            return False
        if inside is outside:
            return inside
        bounds = self.bounds if inside else () if self.opposite is None else self.opposite.bounds
        first = [bound._replace(offset=0, strides=(0,) * len(shape)) for bound in bounds[:1]]
        ends = [end for bound in bounds if (end := _end_of(bound, shape)) is not None]
        return any(all(_holds_at(bound, place, shape) for bound in bounds) for place in (*first, *ends))

    def mapped(self, function: Callable[[Any], Any]) -> "AffineMask":
        """A function of each element."""
        return _made(function(self.inside), function(self.outside), self.bounds)


def _holds_at(bound: AffineIndex, place: AffineIndex, shape: Shape) -> bool:
    """Whether a bound is at least 0 at one element of every row, given as an index."""
    *rows, step = bound.strides
    return bound._replace(strides=(*rows, 0)).plus(place, step).is_at_least(0, shape)


def _end_of(bound: AffineIndex, shape: Shape) -> AffineIndex | None:
    """The last element before a diagonal, as an index; None if rows may end before it."""
    if len(shape) < 2 or any(bound.strides[:-2]) or tuple(bound.strides[-2:]) != (1, -1):
        return None
    end = bound._replace(strides=(*bound.strides[:-1], 0))
    left = end.times(-1).plus_number(shape[-1] - 1)
    return end if all(index.is_at_least(0, shape) for index in (end, left)) else None


def uniform(value: Any) -> AffineMask:
    """A tensor of equal elements."""
    return AffineMask(value, value, ())


def chosen(inside: Any, outside: Any, bounds: tuple[AffineIndex, ...], shape: Shape) -> AffineMask | None:
    """A mask of this shape without bounds that always hold; uniform if one never holds."""
    left: list[AffineIndex] = []
    for bound in bounds:
        if bound.times(-1).is_at_least(1, shape):
            return uniform(outside)
        if not bound.is_at_least(0, shape) and bound not in left:
            left.append(bound)
    return None if len(left) > MAX_BOUNDS else _made(inside, outside, tuple(left))


def _made(inside: Any, outside: Any, bounds: tuple[AffineIndex, ...]) -> AffineMask:
    return AffineMask(inside, outside, bounds) if bounds and _differ(inside, outside) else uniform(inside)


def _differ(one: Any, other: Any) -> bool:
    return bool(one != other) and not (one != one and other != other)  # NaN is not equal to itself


def of_array(array: "np.ndarray[Any, Any]") -> AffineMask | None:
    """An array as a mask: equal elements, or two values on the sides of a diagonal of its last two axes."""
    if not array.size or array.dtype.kind in "OSUc":
        return None
    first = array.reshape(-1)[0]
    if (array == first).all():
        return uniform(first)
    if array.ndim < 2:
        return None
    square = array.reshape(-1, *array.shape[-2:])
    inside, outside = square[0, -1, 0], square[0, 0, -1]
    if not _differ(inside, outside):
        return None
    last = int((square[0, 0] == inside).sum()) - 1  # the last column of row 0 on the side of the lower left corner
    rows, columns = array.shape[-2:]
    lower = np.tri(rows, columns, last, dtype=bool)
    if not (square == np.where(lower, inside, outside)).all():
        return None
    strides = (*[0] * (array.ndim - 2), 1, -1)
    return chosen(inside, outside, (AffineIndex(last, strides),), array.shape)


def moved(choice: AffineMask, move: Callable[[AffineIndex], AffineIndex | None], shape: Shape) -> AffineMask | None:
    """The mask after its elements are moved, in a tensor of this shape."""
    found = [move(bound) for bound in choice.bounds]
    bounds = tuple(bound for bound in found if bound is not None)
    return chosen(choice.inside, choice.outside, bounds, shape) if len(bounds) == len(found) else None


def combined(
    function: Callable[[Any, Any], Any], one: tuple[AffineMask, Shape], other: tuple[AffineMask, Shape], shape: Shape
) -> AffineMask | None:
    """A function of two masks that broadcast to a shape; None if the result has more than two values."""
    first, second = (moved(choice, spreading(own, shape), shape) for choice, own in (one, other))
    if first is None or second is None:
        return None
    if second.is_uniform:
        return first.mapped(lambda value: function(value, second.inside))
    if first.is_uniform:
        return second.mapped(lambda value: function(first.inside, value))
    if first.bounds == second.bounds:
        inside, outside = function(first.inside, second.inside), function(first.outside, second.outside)
        return _made(inside, outside, first.bounds)
    return None


def both(one: AffineMask, other: AffineMask, truth: bool, shape: Shape) -> AffineMask | None:
    """The mask of elements for which both boolean masks are `truth`: And for true, Or for false; None if it is not
    affine.
    """
    found = [_with_inside(choice, truth) for choice in (one, other)]
    bounds = [bound for choice in found if choice is not None for bound in choice.bounds]
    if any(choice is None for choice in found):
        return None
    return chosen(np.bool_(truth), np.bool_(not truth), tuple(bounds), shape)


def _with_inside(choice: AffineMask, truth: bool) -> AffineMask | None:
    """A boolean mask that is not constant, rewritten to be `truth` inside its bounds."""
    return choice if bool(choice.inside) is truth else choice.opposite
