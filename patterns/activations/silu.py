"""SiLU, also called Swish (Elfwing et al., arXiv:1702.03118; Ramachandran et al., arXiv:1710.05941)."""

from surgeon import Graph, Tensor, rule
from .._common.floats import has_finite_slopes, is_not_float64


def by_sigmoid(g: Graph, x: Tensor) -> Tensor:
    """x · σ(x)."""
    return g.mul(x, g.sigmoid(x))


def by_exponential(g: Graph, x: Tensor) -> Tensor:
    """x / (1 + exp(−x))."""
    return g.div(x, g.add(1.0, g.exp(g.neg(x))))


@rule(patterns=[by_sigmoid, by_exponential])
def silu(g: Graph, x: Tensor) -> Tensor:
    """Fuse x · σ(x) into one node: QuickGelu with alpha=1, or Swish.

    What: x · σ(x).  The sigmoid may be written as 1/(1 + exp(−x)).
    Numerics: rounding only.
    """
    return g.ms_quick_gelu(x, alpha=1.0)


@silu.on("onnx", opset=24)
def _(g: Graph, x: Tensor) -> Tensor:
    """ai.onnx::Swish with α = 1."""
    return g.swish(x, alpha=1.0)


def by_scaled_sigmoid(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """x · σ(α · x)."""
    return g.mul(x, g.sigmoid(g.mul(x, alpha)))


@rule(patterns=[by_scaled_sigmoid], conditions=[is_not_float64, has_finite_slopes])
def swish(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """Fuse x · σ(α · x) into one node: QuickGelu, or Swish.

    What: a SiLU with a constant number α.  With α = 1.702 it is QuickGELU.
    Numerics: rounding only.
    """
    return g.ms_quick_gelu(x, alpha=alpha)


@swish.on("onnx", opset=24)
def _(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """ai.onnx::Swish."""
    return g.swish(x, alpha=alpha)
