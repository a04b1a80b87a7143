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
    """Require a positive α.  Otherwise max and min select the wrong branch below zero."""
    require(0 < alpha < inf, "alpha must be positive")


def node(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """Celu, which supports only float32."""
    return g.celu(x, alpha=alpha)


@rule(patterns=[by_parts, by_where, by_elu], conditions=[is_celu], target="onnx", opset=12, form_patterns=[node])
def celu(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """Fuse the continuously differentiable exponential linear unit into one Celu node.

    What: max(x, 0) + min(α · (exp(x/α) − 1), 0), the same with Where, or α · elu(x/α).  With α = 1, Celu equals Elu.
    Numerics: rounding only.  Celu supports only float32, so float16 is cast to float32 and back.
    """
    return in_float32(g, x, lambda wide: g.celu(wide, alpha=alpha))
