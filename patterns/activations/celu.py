"""CELU, the ELU that is smooth for any α (Barron, arXiv:1704.07483)."""

from math import inf

from surgeon import Graph, Tensor, require, rule
from .._common.floats import in_float32


def bend(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """α · (exp(x/α) − 1)."""
    return g.mul(alpha, g.sub(g.exp(g.div(x, alpha)), 1.0))


def by_parts(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """max(x, 0) + min(α · (exp(x/α) − 1), 0)."""
    return g.add(g.relu_of(x), g.negative_part(bend(g, x, alpha)))


def by_where(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """x above zero, α · (exp(x/α) − 1) below."""
    return g.by_sign(x, x, bend(g, x, alpha))


def by_elu(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """α · elu(x/α)."""
    return g.mul(alpha, g.elu(g.div(x, alpha)))


def is_celu(alpha: float) -> None:
    """Below zero, the maxima and minima choose rightly only for a positive α."""
    require(0 < alpha < inf, "alpha must be positive")


def node(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """Celu, which takes only float32."""
    return g.celu(x, alpha=alpha)


@rule(patterns=[by_parts, by_where, by_elu], conditions=[is_celu], target="onnx", opset=12, form_patterns=[node])
def celu(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """Fuse the continuously differentiable exponential linear unit into one Celu node.

    What: max(x, 0) + min(α · (exp(x/α) − 1), 0), also with Where, or as α · elu(x/α).  For an α of 1 that is an ELU.
    Numerics: rounding only.  Celu takes float32 alone: a float16 is cast to it and back.
    """
    return in_float32(g, x, lambda wide: g.celu(wide, alpha=alpha))
