"""The logistic sigmoid."""

from surgeon import Graph, Tensor, rule


def by_exponential(g: Graph, x: Tensor) -> Tensor:
    """1 / (1 + exp(−x))."""
    return g.div(1.0, g.add(1.0, g.exp(g.neg(x))))


def by_tangent(g: Graph, x: Tensor) -> Tensor:
    """(1 + tanh(x/2)) / 2."""
    tangent = g.tanh(g.mul(x, 0.5))
    return g.any_of(g.mul(0.5, g.add(1.0, tangent)), g.add(0.5, g.mul(0.5, tangent)))


@rule(patterns=[by_exponential, by_tangent], target="onnx")
def sigmoid(g: Graph, x: Tensor) -> Tensor:
    """Fuse 1 / (1 + exp(−x)) into one Sigmoid node.

    What: the quotient, the reciprocal of the sum, or (1 + tanh(x/2))/2.
    Numerics: rounding only.  If tanh rounds to −1, only the fused node is correct.
    """
    return g.sigmoid(x)
