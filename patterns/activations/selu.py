"""SELU (Klambauer et al., arXiv:1706.02515), whose two constants keep means at 0 and variances at 1."""

from collections.abc import Callable
from math import isclose, isfinite

import numpy as np

from surgeon import Graph, Tensor, require, rule
from .._common.floats import in_float32, is_not_float64, is_relu_exact_clip
from .elu import negative_branch

ALPHA, GAMMA = 1.6732632423543772, 1.0507009873554805


def scaled_where(g: Graph, x: Tensor) -> Tensor:
    """γ · (x above zero, α · (exp(x) − 1) below)."""
    return g.mul(GAMMA, g.by_sign(x, x, negative_branch(g, x, ALPHA)))


def scaled_parts(g: Graph, x: Tensor) -> Tensor:
    """γ · (max(x, 0) + min(α · (exp(x) − 1), 0))."""
    return g.mul(GAMMA, g.add(g.relu_of(x), g.negative_part(negative_branch(g, x, ALPHA))))


def scaled_elu(g: Graph, x: Tensor) -> Tensor:
    """γ · elu(x)."""
    return g.mul(GAMMA, g.elu(x, alpha=ALPHA))


def scaled_elu_of_half(g: Graph, x: Tensor) -> Tensor:
    """The same with α rounded to float16, which fusing an ELU in float16 produces."""
    return g.mul(GAMMA, g.capture("rounded", g.elu(x, alpha=float(np.float16(ALPHA)))))


def rounded_in_half(x: Tensor, rounded: Tensor | None = None) -> None:
    """Require float16 for the rounded α.  With more digits, another α is another function."""
    require(rounded is None or x.dtype == "float16", "alpha equals the alpha of SELU only when rounded to float16")


def by_definition(g: Graph, x: Tensor, alpha: float, gamma: float) -> Tensor:
    """γ · (α · exp(x) − α) up to zero, γ · x above: the definition in the standard."""
    a, c = g.maybe_like(alpha), g.maybe_like(gamma)
    below = g.mul(c, g.sub(g.mul(a, g.exp(x)), a))
    zero = g.maybe_like(0.0)
    return g.any_of(
        g.where(g.any_of(g.less_or_equal(x, zero), g.less(x, zero)), below, g.mul(c, x)),
        g.where(g.any_of(g.greater(x, zero), g.greater_or_equal(x, zero)), g.mul(c, x), below),
    )


def are_numbers(alpha: float = ALPHA, gamma: float = GAMMA) -> None:
    """Require finite factors.  With an infinite factor the graph gives NaN, but the fused node gives infinity."""
    require(isfinite(alpha) and isfinite(gamma), "alpha and gamma must be finite")


CONDITIONS: list[Callable[..., None]] = [is_not_float64, rounded_in_half, is_relu_exact_clip, are_numbers]
PATTERNS: list[Callable[..., Tensor]] = [scaled_where, scaled_parts, scaled_elu, scaled_elu_of_half, by_definition]


@rule(patterns=PATTERNS, conditions=CONDITIONS, target="onnx")
def selu(g: Graph, x: Tensor, alpha: float = ALPHA, gamma: float = GAMMA) -> Tensor:
    """Fuse the scaled exponential linear unit into one Selu node.

    What: γ · elu(x, α) with the α and γ of SELU.  The ELU is one node or decomposed.  For any other α and γ, only the
    definition in the standard matches: γ · (α · exp(x) − α) up to zero and γ · x above.
    Numerics: rounding only.
    """
    return g.selu(x, alpha=alpha, gamma=gamma)


@selu.on("decomposed")
def _(g: Graph, x: Tensor, alpha: float = ALPHA, gamma: float = GAMMA) -> Tensor:
    is_usual = isclose(alpha, ALPHA, rel_tol=1e-3) and isclose(gamma, GAMMA, rel_tol=1e-3)
    require(is_usual or x.dtype != "bfloat16", "exp(x) − 1 in bfloat16 has too few digits for other factors")
    return in_float32(
        g, x, lambda wide: g.mul(gamma, g.where(g.greater(wide, 0.0), wide, negative_branch(g, wide, alpha)))
    )
