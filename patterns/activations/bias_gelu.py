"""GELU of a sum with a bias, as a linear layer with an activation computes it."""

from surgeon import Graph, Tensor, require, rule
from .gelu import exact


def biased(g: Graph, x: Tensor, bias: Tensor) -> Tensor:
    """gelu(x + bias), the GELU decomposed or already one node."""
    total = g.add(x, bias)
    return g.any_of(exact(g, total), g.ms_gelu(total), g.gelu(total))


def is_bias_vector(x: Tensor, bias: Tensor) -> None:
    """BiasGelu adds a vector along the last axis (ORT contrib ops, BiasGelu-1)."""
    require(bias.rank == 1, "the bias must be a vector")
    if x.shape is not None:
        require(x.shape[-1:] == bias.shape, "the bias must be as long as the last axis of x")
    require(x.rank is not None, "the rank of x must be known, because the bias must run along its last axis")


def node(g: Graph, x: Tensor, bias: Tensor) -> Tensor:
    """com.microsoft::BiasGelu."""
    return g.ms_bias_gelu(x, bias)


@rule(patterns=[biased], conditions=[is_bias_vector], form_patterns=[node])
def bias_gelu(g: Graph, x: Tensor, bias: Tensor) -> Tensor:
    """Fuse the bias of a linear layer and the exact GELU after it into com.microsoft::BiasGelu.

    What: gelu(x + bias).  The bias is a vector along the last axis, and the GELU may already be one node.
    Numerics: rounding only.
    """
    return node(g, x, bias)


@bias_gelu.on("decomposed", conditions=[])
def _(g: Graph, x: Tensor, bias: Tensor) -> Tensor:
    return exact(g, g.add(x, bias))
