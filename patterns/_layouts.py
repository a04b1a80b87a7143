"""Reshapes, and heads joined in one axis, as patterns of several rules look for them."""

from surgeon import Graph, Tensor

HEADS_FIRST = [0, 2, 1, 3]  # [batch, rows, heads, columns] to [batch, heads, rows, columns], and back


def reshaped(g: Graph, x: Tensor) -> Tensor:
    """x in another shape, whatever a size of 0 in the target means: what counts is the shape of the result."""
    shape = g.any_tensor()
    return g.any_of(g.reshape(x, shape), g.reshape(x, shape, allowzero=1))


def joined(g: Graph, x: Tensor) -> Tensor:
    """The heads of [batch, heads, rows, columns] beside each other in the last axis."""
    return reshaped(g, g.transpose(x, perm=HEADS_FIRST))
