"""Gated linear unit (Dauphin et al., arXiv:1612.08083): half of the channels gates the other half."""

import surgeon
from surgeon import Captures, Graph, Tensor, require, rule


@surgeon.function("acme::GLU")
def gated(g: Graph, x: Tensor, *, axis: int = -1) -> Tensor:
    """a · sigmoid(b) for the halves a, b of an axis."""
    a, b = g.cut(x, 2, axis)
    return g.mul(a, g.sigmoid(b))


class Gate(Captures):
    x: Tensor
    y: Tensor


def glu_of(g: Graph, m: Gate) -> Tensor:
    """The same written out, over the channels of a convolution or the columns of a linear layer."""
    m.y = g.any_of(*(g.mul(a, g.sigmoid(b)) for a, b in (g.cut(m.x, 2, -1), g.cut(m.x, 2, 1))))
    return m.y


@rule(patterns=[glu_of], target="any")
def glu(g: Graph, m: Gate) -> Tensor:
    """Write a gated linear unit as one call."""
    require(m.x.shape is not None and m.y.rank == m.x.rank, "the shape of what is gated is unknown")
    halved = [axis for axis, size in enumerate(m.x.shape) if size != m.y.shape[axis]]
    return gated(g, m.x, axis=halved[0])
