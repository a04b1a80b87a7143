"""Sizes that are read from a transposed or reshaped tensor, although its input has them too."""

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule


def one_size(g: Graph, x: Tensor, start: list[int], stop: list[int]) -> Tensor:
    """A slice of the shape of x, along its only axis, given or not."""
    shape = g.shared(g.shape(x))
    return g.any_of(g.slice(shape, start, stop, [0]), g.slice(shape, start, stop))


def sliced(g: Graph, x: Tensor, perm: list[int], start: list[int], stop: list[int]) -> Tensor:
    """One size of a transposed tensor, as a tensor with one element."""
    return one_size(g, g.shared(g.transpose(x, perm=perm)), start, stop)


def gathered(g: Graph, x: Tensor, perm: list[int], index: Constant) -> Tensor:
    """One size of a transposed tensor."""
    return g.gather(g.shared(g.shape(g.shared(g.transpose(x, perm=perm)))), index, axis=0)


def partial_shape(g: Graph, x: Tensor, perm: list[int], first: int, last: int) -> Tensor:
    """The same by a Shape that returns only one size."""
    return g.shape(g.shared(g.transpose(x, perm=perm)), start=first, end=last)


@rule(patterns=[sliced, gathered, partial_shape], target="any", opset=10)
def shape_of_transpose(
    g: Graph,
    x: Tensor,
    perm: list[int],
    start: list[int] | None = None,
    stop: list[int] | None = None,
    index: Constant | None = None,
    first: int = 0,
    last: int | None = None,
) -> Tensor:
    """Read a size from a tensor before its Transpose, so that the size does not depend on the Transpose.

    What: Slice of one element, or Gather, of Shape(Transpose(x)), or a Shape of one element.  The rule reads the size
    of x on the original axis.
    Numerics: none.
    """
    if index is not None:
        require(index.values.size == 1, "it reads more than one size")
        axis = perm[int(index.values.reshape(-1)[0])]
        return g.gather(g.shape(x), np.full(index.values.shape, axis, index.values.dtype), axis=0)
    axis = perm[one_place(len(perm), start or [first], stop or last)]
    return g.size_of(x, axis)


def one_place(rank: int, start: list[int] | None, stop: list[int] | int | None) -> int:
    """Return the place of the only size that a Slice selects from a shape, or that a Shape with bounds returns."""
    ends = [stop] if isinstance(stop, int) else stop
    require(bool(start and ends), "the bounds of the Slice are unknown, or the whole shape is read")
    first: int
    first, last = (place + rank if place < 0 else place for place in (*(start or ()), *(ends or ())))
    require(0 <= first < rank and last == first + 1, "it must read exactly one size")
    return first


def sliced_reshaped(g: Graph, x: Tensor, start: list[int], stop: list[int]) -> Tensor:
    """One size of a reshaped tensor, as a tensor with one element."""
    return one_size(g, g.capture("y", g.shared(g.reshaped(x))), start, stop)


def told_reshaped(g: Graph, x: Tensor, first: int, last: int) -> Tensor:
    """The same by a Shape that returns only one size."""
    return g.shape(g.capture("y", g.shared(g.reshaped(x))), start=first, end=last)


@rule(patterns=[sliced_reshaped, told_reshaped], target="any", opset=10)
def shape_of_reshape(
    g: Graph,
    x: Tensor,
    y: Tensor,
    start: list[int] | None = None,
    stop: list[int] | None = None,
    first: int = 0,
    last: int | None = None,
) -> Tensor:
    """Read a size that a Reshape keeps from the tensor before the Reshape.

    What: Slice of one element of Shape(Reshape(x)), or a Shape of one element, if x has the same size on that axis.
    Numerics: none.
    """
    require(x.shape is not None and y.shape is not None, "a shape is unknown")
    place = one_place(y.rank, start or [first], stop or last)
    require(place < x.rank and x.shape[place] == y.shape[place], "the reshape changes the size")
    return g.size_of(x, place)


def quotient(g: Graph, x: Tensor, start: list[int], stop: list[int], parts: Constant) -> Tensor:
    """A size of a reshaped tensor divided by a number."""
    return g.div(sliced_reshaped(g, x, start, stop), parts)


@rule(patterns=[quotient], target="any", opset=10)
def shape_of_merged_axis(g: Graph, x: Tensor, y: Tensor, start: list[int], stop: list[int], parts: Constant) -> Tensor:
    """Read a size from a tensor, instead of dividing the size of the merged axis after a Reshape.

    What: Div of one element of Shape(Reshape(x)) by a number, if x has an axis of this size.
    Numerics: none.
    """
    require(x.shape is not None and y.shape is not None, "a shape is unknown")
    joined = y.shape[one_place(y.rank, start, stop)]
    require(parts.values.size == 1 and parts.rank < 2, "the divisor must be one number")
    number = int(parts.values.reshape(-1)[0])
    axes = [axis for axis, size in enumerate(x.shape) if size * number == joined]
    require(number > 0 and bool(axes), "the reshaped tensor has no axis of this size")
    return g.size_of(x, axes[0])
