"""Leaky ReLU (Maas et al., ICML 2013)."""

from surgeon import Graph, Tensor, require, rule
from .._common.floats import has_finite_slopes, is_not_float64, is_relu_exact_clip


def by_where(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """x above zero, α · x below."""
    return g.by_sign(x, x, g.mul(x, alpha))


def by_maximum(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """max(x, α · x), for an α between 0 and 1."""
    return g.max(x, g.capture("flatter", g.mul(x, alpha)))


def by_parts(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """max(x, 0) + α · min(x, 0)."""
    return g.add(g.relu_of(x), g.mul(alpha, g.negative_part(x)))


def by_relus(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """relu(x) − α · relu(−x)."""
    return g.sub(g.relu(x), g.mul(alpha, g.relu(g.neg(x))))


def is_leaky(alpha: float, flatter: Tensor | None = None) -> None:
    """Require α ≤ 1 for the form max(x, α · x).  Otherwise the maximum of a positive x is α · x."""
    require(
        flatter is None or 0 < alpha <= 1,
        "alpha must be between 0 and 1, otherwise max(x, alpha * x) is not a leaky ReLU",
    )


@rule(
    patterns=[by_where, by_maximum, by_parts, by_relus],
    conditions=[is_leaky, has_finite_slopes, is_not_float64, is_relu_exact_clip],
    target="onnx",
)
def leaky_relu(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """Fuse the leaky ReLU into one LeakyRelu node.

    What: x above zero and α · x below, written with Where, as max(x, α · x), as max(x, 0) + α · min(x, 0), or with
    ReLUs.
    Numerics: rounding only.
    """
    return g.leaky_relu(x, alpha=alpha)


@leaky_relu.on("decomposed")
def _(g: Graph, x: Tensor, alpha: float) -> Tensor:
    return g.where(g.greater(x, 0.0), x, g.mul(x, alpha))
