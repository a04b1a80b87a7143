"""Chains of nodes that only change the shape of a tensor and become one Reshape."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule


class ReshapeChain(Captures):
    """x in another shape (middle), and that in another shape (y).

    first, zero, axis, axes: the settings of the first node. shape, last, gone: those of the second.
    """

    x: Tensor
    middle: Tensor | Any = None
    y: Tensor | Any = None
    first: Tensor | None = None
    zero: int = 0
    axis: int = 0
    axes: list[int] | None = None
    shape: Tensor | Any = None
    attributes: dict[str, Any] | Any = None
    last: int = 0
    gone: list[int] | None = None


def squeezed(g: Graph, x: Tensor, axes: Any) -> Tensor:
    """x with axes of size one removed or inserted."""
    return g.any_of(g.squeeze(x, axes), g.unsqueeze(x, axes))


def any_shape(g: Graph, m: ReshapeChain) -> Tensor:
    """The elements of x in order, in another shape.  The meaning of zeros in the first target shape does not matter."""
    targets = g.reshape(m.x, m.first, allowzero=m.zero), g.reshape(m.x, m.first)
    m.middle = g.any_of(*targets, g.flatten(m.x, axis=m.axis), squeezed(g, m.x, m.axes))
    return g.shared(m.middle)


def reshaped(g: Graph, m: ReshapeChain) -> Tensor:
    """A Reshape of any of these."""
    m.y = g.reshape(any_shape(g, m), m.shape, **m.attributes)
    return m.y


class Weights(ReshapeChain):
    """The weights of a softmax over scores, reshaped and reshaped back."""

    x: Tensor | Any = None
    scores: Tensor


def weights_twice(g: Graph, m: Weights) -> Tensor:
    """The weights, reshaped twice."""
    m.x = g.shared(g.softmax(m.scores, axis=-1))
    m.middle = g.any_of(g.reshape(m.x, m.first, allowzero=m.zero), g.reshape(m.x, m.first))
    m.y = g.reshape(g.shared(m.middle), m.shape, **m.attributes)
    return m.y


@rule(patterns=[weights_twice], target="any")
def cancelling_reshapes(g: Graph, m: Weights) -> Tensor:
    """Remove a Reshape of attention weights and the Reshape that undoes it, so that the product follows the softmax.

    What: Reshape of a Reshape of a Softmax to the original shape.  Eager attention that returns its weights has this
    form.  The first Reshape stays if it has other consumers.
    Numerics: none.
    """
    require(m.x.shape is not None and m.x.shape == m.y.shape, "the result must have the shape of the weights")
    return g.softmax(m.scores, axis=-1)


@rule(patterns=[reshaped], target="any")
def consecutive_reshapes(g: Graph, m: ReshapeChain) -> Tensor:
    """Merge a Reshape with the reshaping node before it, or remove both if the second undoes the first.

    What: Reshape of a Reshape, Flatten, Squeeze or Unsqueeze.  The first stays if it has other consumers.
    Numerics: none.
    """
    if m.x.shape is not None and m.x.shape == m.y.shape:
        return m.x
    if m.shape.elements is None or not takes_no_size(m.x, m.middle, m.shape.elements):
        return g.reshape(m.x, fixed(m.y))
    return g.reshape(m.x, m.shape, **m.attributes)


def takes_no_size(x: Tensor, middle: Tensor, elements: list[Any]) -> bool:
    """Return whether no element of a target shape is a 0 that copies a size, unless both tensors have this size."""
    sizes = [x.shape or (), middle.shape or ()]
    for axis, element in enumerate(elements):
        found = [given[axis] if axis < len(given) else None for given in sizes]
        is_same = found[0] is not None and found[0] in (found[1], element)
        if not is_same and not (isinstance(element, int) and element):
            return False
    return True


def fixed(y: Tensor) -> list[int]:
    """Return the sizes of a tensor as a target shape.  At most one size may be dynamic, and none may be 0."""
    require(y.shape is not None, "the rank of the result is unknown")
    free = [size for size in y.shape if not isinstance(size, int)]
    require(len(free) < 2 and 0 not in y.shape, "at least two sizes of the result are dynamic, or one is 0")
    return [size if isinstance(size, int) else -1 for size in y.shape]


def flattened(g: Graph, m: ReshapeChain) -> Tensor:
    """Any of these, flattened, or with axes of size one removed or inserted."""
    middle = any_shape(g, m)
    m.y = g.any_of(g.flatten(middle, axis=m.last), squeezed(g, middle, m.gone))
    return m.y


@rule(patterns=[flattened], target="any", opset=5)
def consecutive_flattens(g: Graph, m: ReshapeChain) -> Tensor:
    """Merge a Flatten, Squeeze or Unsqueeze with the reshaping node before it into one Reshape, or remove both.

    What: Flatten, Squeeze or Unsqueeze of a Reshape, Flatten, Squeeze or Unsqueeze.  At most one size of the result may
    be dynamic, or the result has the original shape.  The first node stays if it has other consumers.
    Numerics: none.
    """
    return m.x if m.x.shape is not None and m.x.shape == m.y.shape else g.reshape(m.x, fixed(m.y))
