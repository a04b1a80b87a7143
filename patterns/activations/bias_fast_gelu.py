"""GELU by the tanh approximation, of a sum with a bias."""

from surgeon import Graph, Tensor, rule
from .._common.floats import is_not_float64
from .bias_gelu import is_bias_vector
from .gelu import tanh_approximation


def biased(g: Graph, x: Tensor, bias: Tensor) -> Tensor:
    """gelu(x + bias).  The tanh approximation is already one node."""
    total = g.add(x, bias)
    return g.any_of(g.ms_fast_gelu(total), g.gelu(total, approximate="tanh"))


def node(g: Graph, x: Tensor, bias: Tensor) -> Tensor:
    """com.microsoft::FastGelu with a bias."""
    return g.ms_fast_gelu(x, bias)


@rule(patterns=[biased], conditions=[is_bias_vector, is_not_float64], form_patterns=[node])
def bias_fast_gelu(g: Graph, x: Tensor, bias: Tensor) -> Tensor:
    """Fuse the bias of a linear layer into the FastGelu that follows it.

    What: gelu(x + bias).  The bias is a vector along the last axis, and the tanh approximation of GELU is one node.
    Numerics: rounding only.
    """
    return node(g, x, bias)


@bias_fast_gelu.on("decomposed", conditions=[])
def _(g: Graph, x: Tensor, bias: Tensor) -> Tensor:
    return tanh_approximation(g, g.add(x, bias))
