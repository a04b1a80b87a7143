"""ELU (Clevert et al., arXiv:1511.07289)."""

from math import inf

from surgeon import Graph, Tensor, require, rule
from .._common.floats import in_float32, is_not_float64, is_relu_exact_clip


def negative_branch(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """α · (exp(x) − 1)."""
    return g.mul(alpha, g.sub(g.exp(x), 1.0))


def bend_of_any(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """α · (exp(x) − 1), or exp(x) − 1 if α is 1."""
    return g.any_of(negative_branch(g, x, alpha), g.sub(g.exp(x), 1.0))


def by_where(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """x above zero, α · (exp(x) − 1) below."""
    return g.by_sign(x, x, bend_of_any(g, x, alpha))


def by_parts(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """max(x, 0) + min(α · (exp(x) − 1), 0)."""
    return g.add(g.relu_of(x), g.negative_part(bend_of_any(g, x, alpha)))


def by_relus(g: Graph, x: Tensor, alpha: float) -> Tensor:
    """relu(x) − α · relu(1 − exp(x))."""
    below = g.relu(g.sub(1.0, g.exp(x)))
    return g.sub(g.relu(x), g.any_of(g.mul(alpha, below), below))


def is_elu(alpha: float = 1.0) -> None:
    """Require a positive α.  Otherwise max and min select the wrong branch below zero."""
    require(0 < alpha < inf, "alpha must be positive")


@rule(patterns=[by_where, by_parts, by_relus], conditions=[is_elu, is_not_float64, is_relu_exact_clip], target="onnx")
def elu(g: Graph, x: Tensor, alpha: float = 1.0) -> Tensor:
    """Fuse the exponential linear unit into one Elu node.

    What: x above zero and α · (exp(x) − 1) below, written with Where, as max(x, 0) + min(α · (exp(x) − 1), 0), or with
    ReLUs.
    Numerics: rounding only.
    """
    return g.elu(x, alpha=alpha)


@elu.on("decomposed")
def _(g: Graph, x: Tensor, alpha: float) -> Tensor:
    return in_float32(g, x, lambda wide: g.where(g.greater(wide, 0.0), wide, negative_branch(g, wide, alpha)))
