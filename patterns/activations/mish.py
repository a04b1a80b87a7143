"""Mish (Misra, arXiv:1908.08681)."""

from surgeon import Graph, Tensor, rule


def by_softplus(g: Graph, x: Tensor) -> Tensor:
    """x · tanh(softplus(x))."""
    return g.mul(x, g.tanh(g.softplus_of(x)))


@rule(patterns=[by_softplus], target="onnx", opset=18)
def mish(g: Graph, x: Tensor) -> Tensor:
    """Fuse x · tanh(softplus(x)) into one Mish node.

    What: the softplus is one node, one node with a threshold of 20 (torch), or log(1 + exp(x)).
    Numerics: rounding only.  With log(1 + exp(x)), Mish overflows to infinity for a large x, but the fused node does
    not.
    """
    return g.mish(x)
