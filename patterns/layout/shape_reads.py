"""Sizes read from a transposed or reshaped tensor, which its input has too."""

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule


def one_size(g: Graph, x: Tensor, start: list[int], stop: list[int]) -> Tensor:
    """A slice of the shape of x, along its only axis, named or not."""
    shape = g.shared(g.shape(x))
    return g.any_of(g.slice(shape, start, stop, [0]), g.slice(shape, start, stop))


def sliced(g: Graph, x: Tensor, perm: list[int], start: list[int], stop: list[int]) -> Tensor:
    """One size of a transposed tensor, as a tensor of one element."""
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
    """Read a size from a tensor before it is transposed, so that the transposed one need not be there for it.

    What: Slice of one element, or Gather, of Shape(Transpose(x)), or a Shape of one element: the size of x on the axis
    that is moved there.
    Numerics: none.
    """
    if index is not None:
        require(index.values.size == 1, "more than one size is read")
        axis = perm[int(index.values.reshape(-1)[0])]
        return g.gather(g.shape(x), np.full(index.values.shape, axis, index.values.dtype), axis=0)
    axis = perm[one_place(len(perm), start or [first], stop or last)]
    return g.size_of(x, axis)


def one_place(rank: int, start: list[int] | None, stop: list[int] | int | None) -> int:
    """The place of the one size that a slice leaves of a shape, or a Shape that ends at a number."""
    ends = [stop] if isinstance(stop, int) else stop
    require(bool(start and ends), "the slice is unknown, or of a scalar's shape, or the shape is told as a whole")
    first: int
    first, last = (place + rank if place < 0 else place for place in (*(start or ()), *(ends or ())))
    require(0 <= first < rank and last == first + 1, "more than one size is read, or none")
    return first


def sliced_reshaped(g: Graph, x: Tensor, start: list[int], stop: list[int]) -> Tensor:
    """One size of a reshaped tensor, as a tensor of one element."""
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
    """Read a size that a reshape keeps from the tensor before it.

    What: Slice of one element of Shape(Reshape(x)), or a Shape of one element, where x has the same size on that axis.
    Numerics: none.
    """
    require(x.shape is not None and y.shape is not None, "a shape is unknown")
    place = one_place(y.rank, start or [first], stop or last)
    require(place < x.rank and x.shape[place] == y.shape[place], "the reshape changes the size")
    return g.size_of(x, place)


def quotient(g: Graph, x: Tensor, start: list[int], stop: list[int], parts: Constant) -> Tensor:
    """A size of a reshaped tensor by a number."""
    return g.div(sliced_reshaped(g, x, start, stop), parts)


@rule(patterns=[quotient], target="any", opset=10)
def shape_of_merged_axis(g: Graph, x: Tensor, y: Tensor, start: list[int], stop: list[int], parts: Constant) -> Tensor:
    """Read a size from a tensor, instead of dividing that of the axis which it is part of after a reshape.

    What: Div of one element of Shape(Reshape(x)) by a number, where x has an axis of that size.
    Numerics: none.
    """
    require(x.shape is not None and y.shape is not None, "a shape is unknown")
    joined = y.shape[one_place(y.rank, start, stop)]
    require(parts.values.size == 1 and parts.rank < 2, "it is divided by several numbers")
    number = int(parts.values.reshape(-1)[0])
    axes = [axis for axis, size in enumerate(x.shape) if size * number == joined]
    require(number > 0 and bool(axes), "no axis of what is reshaped has this size")
    return g.size_of(x, axes[0])
