"""The logistic sigmoid."""

from surgeon import Graph, Tensor, rule


def by_exponential(g: Graph, x: Tensor) -> Tensor:
    """1 / (1 + exp(−x))."""
    return g.div(1.0, g.add(1.0, g.exp(g.neg(x))))


@rule(patterns=[by_exponential], target="onnx")
def sigmoid(g: Graph, x: Tensor) -> Tensor:
    """Fuse 1 / (1 + exp(−x)) into one Sigmoid node.

    What: the quotient, or the reciprocal of the sum.
    Numerics: rounding only.
    """
    return g.sigmoid(x)
