"""Reshapes to the shape of another tensor, of which all sizes but one are known."""

from typing import Any

from surgeon import Graph, Tensor, require, rule


def like_another(g: Graph, x: Tensor, other: Tensor, zero: int) -> Any:
    """x in the shape of another tensor."""
    return g.capture("y", g.reshape(x, g.shared(g.shape(other)), allowzero=zero))


@rule(patterns=[like_another], target="any")
def static_reshape(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Write the shape of another tensor, to which one is reshaped, as numbers, where at most one size is free.

    What: Reshape whose target is Shape of a tensor.  What is reshaped then no longer hangs on that tensor, as the bias
    of an attention does on the scores that it is added to.
    Numerics: none.
    """
    require(y.shape is not None, "the rank of the result is unknown")
    free = [size for size in y.shape if not isinstance(size, int)]
    require(len(free) < 2 and 0 not in y.shape, "several sizes of the result are free, or one is 0")
    return g.reshape(x, [-1 if size in free else size for size in y.shape])
