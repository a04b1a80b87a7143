"""Hard sigmoid: a line limited to 0 and 1, by default x/6 + ½ (Howard et al., arXiv:1905.02244)."""

from surgeon import Graph, Tensor, rule
from .._common.floats import has_finite_slopes, is_not_float64


def linear(g: Graph, x: Tensor, alpha: float, beta: float) -> Tensor:
    """clip(α·x + β, 0, 1)."""
    return g.clamp(g.add(g.mul(x, alpha), beta), 0.0, 1.0)


def scaled(g: Graph, x: Tensor, shift: float, alpha: float) -> Tensor:
    """clip(α·(x + c), 0, 1), as (x + 1)/2."""
    return g.clamp(g.mul(g.add(x, shift), alpha), 0.0, 1.0)


def shifted(g: Graph, x: Tensor) -> Tensor:
    """clip(x + 3, 0, 6) / 6, including relu6(x + 3) / 6."""
    return g.div(g.clamp(g.add(x, 3.0), 0.0, 6.0), 6.0)


def node(g: Graph, x: Tensor, alpha: float, beta: float) -> Tensor:
    """HardSigmoid."""
    return g.hard_sigmoid(x, alpha=alpha, beta=beta)


@rule(
    patterns=[linear, scaled, shifted],
    conditions=[is_not_float64, has_finite_slopes],
    target="onnx",
    form_patterns=[node],
)
def hard_sigmoid(g: Graph, x: Tensor, alpha: float = 1 / 6, beta: float = 0.5, shift: float | None = None) -> Tensor:
    """Fuse a hard sigmoid into one HardSigmoid node.

    What: clip(α·x + β, 0, 1), clip(α·(x + c), 0, 1), and clip(x + 3, 0, 6)/6, which has α = 1/6 and β = ½.
    Numerics: rounding only.
    """
    return node(g, x, alpha, beta if shift is None else alpha * shift)


@hard_sigmoid.on("decomposed")
def _(g: Graph, x: Tensor, alpha: float, beta: float) -> Tensor:
    return linear(g, x, alpha, beta)
