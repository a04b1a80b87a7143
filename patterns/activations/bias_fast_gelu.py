"""GELU by its tanh approximation of a sum with a bias."""

from surgeon import Constant, Graph, Tensor, rule
from .._common.floats import is_not_float64
from .bias_gelu import is_bias_vector
from .gelu import tanh_approximation


def biased(g: Graph, x: Tensor, bias: Constant) -> Tensor:
    """gelu(x + bias), the GELU by tanh being one node already."""
    total = g.add(x, bias)
    return g.any_of(g.ms_fast_gelu(total), g.gelu(total, approximate="tanh"))


def node(g: Graph, x: Tensor, bias: Tensor) -> Tensor:
    """com.microsoft::FastGelu with a bias."""
    return g.ms_fast_gelu(x, bias)


@rule(patterns=[biased], conditions=[is_bias_vector, is_not_float64], form_patterns=[node])
def bias_fast_gelu(g: Graph, x: Tensor, bias: Constant) -> Tensor:
    """Let FastGelu add the bias of the linear layer before it.

    What: gelu(x + bias), where bias is a vector along the last axis and the GELU is the one by tanh, as one node.
    Numerics: rounding only.
    """
    return node(g, x, bias)


@bias_fast_gelu.on("decomposed", conditions=[])
def _(g: Graph, x: Tensor, bias: Tensor) -> Tensor:
    return tanh_approximation(g, g.add(x, bias))
