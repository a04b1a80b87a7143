"""Reshapes to a computed shape, all but one of whose sizes are known, or are those of the input."""

from typing import Any

from surgeon import Graph, Tensor, require, rule


def like_another(g: Graph, x: Tensor, other: Tensor, zero: int) -> Any:
    """x in the shape of another tensor."""
    return to_computed(g, x, g.capture("shape", g.shared(g.shape(other))), zero)


def to_computed(g: Graph, x: Tensor, shape: Tensor, zero: int) -> Any:
    """x in a shape that may be computed."""
    return g.capture("y", g.reshape(x, shape, allowzero=zero))


@rule(patterns=[like_another, to_computed], target="any")
def static_reshape(g: Graph, x: Tensor, shape: Tensor, y: Tensor) -> Tensor:
    """Write the target shape of a Reshape as constants, if it has at most one dynamic size that x lacks on that axis.

    What: Reshape whose target is computed: the Shape of a tensor, or sizes and numbers that are concatenated.  A size
    that x has on the same axis becomes 0, and another one −1.  Afterwards the result does not depend on the tensors
    that the sizes were read from.  For example, the bias of an attention no longer depends on the scores to which it is
    added.
    Numerics: none.
    """
    require(not shape.is_constant, "the target shape is already constant")
    require(shape.elements is not None and y.shape is not None, "the target shape is unknown")
    own = (*(x.shape or ()), *[None] * y.rank)
    pairs = list(zip(y.shape, own, strict=False))
    target = [size if isinstance(size, int) else 0 if size == kept else -1 for size, kept in pairs]
    require(target.count(-1) < 2 and 0 not in y.shape, "at least two sizes of the result are dynamic, or one is 0")
    is_open = -1 in target and shape.elements[target.index(-1)] != -1
    require(not is_open or 0 not in target[1:], "a size that x keeps may be 0, and then no size can be left open")
    return g.reshape(x, target)
