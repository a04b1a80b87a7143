"""SELU (Klambauer et al., arXiv:1706.02515), whose two constants keep means at 0 and variances at 1."""

from collections.abc import Callable

import numpy as np

from patterns._numbers import in_float, no_double, open_clips
from patterns.elu import bend
from surgeon import Graph, Tensor, require, rule

ALPHA, GAMMA = 1.6732632423543772, 1.0507009873554805


def scaled_where(g: Graph, x: Tensor) -> Tensor:
    """γ · (x above zero, α · (exp(x) − 1) below)."""
    return g.mul(GAMMA, g.by_sign(x, x, bend(g, x, ALPHA)))


def scaled_parts(g: Graph, x: Tensor) -> Tensor:
    """γ · (max(x, 0) + min(α · (exp(x) − 1), 0))."""
    return g.mul(GAMMA, g.add(g.relu_of(x), g.negative_part(bend(g, x, ALPHA))))


def scaled_elu(g: Graph, x: Tensor) -> Tensor:
    """γ · elu(x)."""
    return g.mul(GAMMA, g.elu(x, alpha=ALPHA))


def scaled_elu_of_half(g: Graph, x: Tensor) -> Tensor:
    """The same with the α that float16 has, as fusing an ELU of float16 leaves it."""
    return g.mul(GAMMA, g.capture("rounded", g.elu(x, alpha=float(np.float16(ALPHA)))))


def rounded_in_half(x: Tensor, rounded: Tensor | None = None) -> None:
    """Where x has more digits, another α is another function."""
    require(rounded is None or x.dtype == "float16", "alpha is that of SELU only as a float16 has it")


CONDITIONS: list[Callable[..., None]] = [no_double, rounded_in_half, open_clips]


@rule(patterns=[scaled_where, scaled_parts, scaled_elu, scaled_elu_of_half], conditions=CONDITIONS, target="onnx")
def selu(g: Graph, x: Tensor) -> Tensor:
    """Fuse the scaled exponential linear unit into one Selu node.

    What: γ · elu(x, α) with SELU's own α and γ, the ELU one node or written out.
    Numerics: rounding only.
    """
    return g.selu(x)


@selu.on("decomposed", is_pattern=False)
def _(g: Graph, x: Tensor) -> Tensor:
    return in_float(g, x, lambda wide: g.mul(GAMMA, g.where(g.greater(wide, 0.0), wide, bend(g, wide, ALPHA))))
