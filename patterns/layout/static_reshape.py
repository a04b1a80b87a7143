"""Reshapes to the shape of another tensor, all but one of whose sizes are known."""

from typing import Any

from surgeon import Graph, Tensor, require, rule


def like_another(g: Graph, x: Tensor, other: Tensor, zero: int) -> Any:
    """x in the shape of another tensor."""
    return g.capture("y", g.reshape(x, g.shared(g.shape(other)), allowzero=zero))


@rule(patterns=[like_another], target="any")
def static_reshape(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Write the target shape of a Reshape as constants, if it is the shape of a tensor with at most one dynamic size.

    What: Reshape whose target is the Shape of a tensor.  Afterwards the result does not depend on that tensor.  For
    example, the bias of an attention no longer depends on the scores to which it is added.
    Numerics: none.
    """
    require(y.shape is not None, "the rank of the result is unknown")
    free = [size for size in y.shape if not isinstance(size, int)]
    require(len(free) < 2 and 0 not in y.shape, "at least two sizes of the result are dynamic, or one is 0")
    return g.reshape(x, [-1 if size in free else size for size in y.shape])
