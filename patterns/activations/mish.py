"""Mish (Misra, arXiv:1908.08681)."""

from surgeon import Graph, Tensor, rule


def by_softplus(g: Graph, x: Tensor) -> Tensor:
    """x · tanh(softplus(x))."""
    return g.mul(x, g.tanh(g.softplus_of(x)))


@rule(patterns=[by_softplus], target="onnx", opset=18)
def mish(g: Graph, x: Tensor) -> Tensor:
    """Fuse x · tanh(softplus(x)) into one Mish node.

    What: the softplus is one node, one only up to 20 (torch), or log(1 + exp(x)).
    Numerics: rounding only; written with log(1 + exp(x)), Mish overflows to infinity late, the one node never does.
    """
    return g.mish(x)
