"""Chains of nodes that only give a tensor another shape, in one Reshape."""

from typing import Any

from surgeon import Graph, Tensor, require, rule


def squeezed(g: Graph, x: Tensor, axes: Any) -> Tensor:
    """x with fewer or more axes of one element."""
    return g.any_of(g.squeeze(x, axes), g.unsqueeze(x, axes))


def any_shape(g: Graph, x: Tensor, first: Tensor, zero: int, axis: int, axes: list[int] | None) -> Tensor:
    """The elements of x in order, in another shape; what a zero of the first target means does not matter."""
    shaped = g.any_of(
        g.reshape(x, first, allowzero=zero), g.reshape(x, first), g.flatten(x, axis=axis), squeezed(g, x, axes)
    )
    return g.shared(g.capture("middle", shaped))


def reshaped(
    g: Graph,
    x: Tensor,
    shape: Tensor,
    first: Tensor,
    zero: int,
    axis: int,
    axes: list[int] | None = None,
    **attributes: Any,
) -> Tensor:
    """Any of these, reshaped."""
    return g.capture("y", g.reshape(any_shape(g, x, first, zero, axis, axes), shape, **attributes))


@rule(patterns=[reshaped], target="any")
def one_reshape(g: Graph, x: Tensor, middle: Tensor, y: Tensor, shape: Tensor, attributes: dict[str, Any]) -> Tensor:
    """Write a reshape of a tensor that was only reshaped as one, or as none where it undoes the first.

    What: Reshape of a Reshape, Flatten, Squeeze or Unsqueeze.  The first stays where others read it too.
    Numerics: none.
    """
    if x.shape is not None and x.shape == y.shape:
        return x
    if shape.elements is None or not takes_no_size(x, middle, shape.elements):
        return g.reshape(x, fixed(y))
    return g.reshape(x, shape, **attributes)


def takes_no_size(x: Tensor, middle: Tensor, elements: list[Any]) -> bool:
    """Whether no element of a target shape can be 0, which copies a size, or copies one that both tensors have."""
    sizes = [x.shape or (), middle.shape or ()]
    for axis, element in enumerate(elements):
        found = [given[axis] if axis < len(given) else None for given in sizes]
        is_same = found[0] is not None and found[0] in (found[1], element)
        if not is_same and not (isinstance(element, int) and element):
            return False
    return True


def fixed(y: Tensor) -> list[int]:
    """The sizes of a tensor as a target shape: at most one of them may be free, and none may be 0."""
    require(y.shape is not None, "the rank of the result is unknown")
    free = [size for size in y.shape if not isinstance(size, int)]
    require(len(free) < 2 and 0 not in y.shape, "a size is copied from the first reshape")
    return [size if isinstance(size, int) else -1 for size in y.shape]


def flattened(
    g: Graph,
    x: Tensor,
    first: Tensor,
    zero: int,
    axis: int,
    last: int,
    axes: list[int] | None = None,
    gone: list[int] | None = None,
) -> Tensor:
    """Any of these, flattened, or with fewer or more axes of one element."""
    middle = any_shape(g, x, first, zero, axis, axes)
    return g.capture("y", g.any_of(g.flatten(middle, axis=last), squeezed(g, middle, gone)))


@rule(patterns=[flattened], target="any", opset=5)
def one_flatten(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Write a Flatten, Squeeze or Unsqueeze of a tensor that was only reshaped as one Reshape, or as none.

    What: Flatten, Squeeze or Unsqueeze of a Reshape, Flatten, Squeeze or Unsqueeze, where at most one size of the
    result is free, or where it has the shape that the tensor had.  The first stays where others read it too.
    Numerics: none.
    """
    return x if x.shape is not None and x.shape == y.shape else g.reshape(x, fixed(y))
