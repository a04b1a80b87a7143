"""Rotary embeddings by matrices, as FLUX has them: the columns of ((cos, −sin), (sin, cos)), times two neighbours."""

from surgeon import Graph, Tensor
from ._rotary import Neighbours


def by_matrices(g: Graph, m: Neighbours) -> Tensor:
    """(cos, sin) · a + (−sin, cos) · b, for neighbours a, b; heads are split at once into pairs."""
    m.parts = g.reshaped(m.base)
    a, b = g.unstacked(m.parts, 2, -1)
    m.y = g.reshaped(g.add(g.mul(m.cos.pair, a), g.mul(m.sin.pair, b)))
    return m.y
