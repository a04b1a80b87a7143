"""A residual and the layer normalisation behind it."""

from surgeon import Constant, Graph, Match, Tensor, rule
from ._residuals import is_a_residual, residual, summed
from .layer_norm import written_out


def alone(
    g: Graph, x: Tensor, skip: Tensor, bias: Constant, gamma: Constant, epsilon: float, beta: Constant | None = None
) -> Tensor:
    """LayerNorm(x + bias + skip), where the normalisation is one node, and there may be no bias."""
    return with_sum(g, x, skip, bias, gamma, epsilon, beta)[0]


def with_sum(
    g: Graph, x: Tensor, skip: Tensor, bias: Constant, gamma: Constant, epsilon: float, beta: Constant | None = None
) -> tuple[Tensor, Tensor]:
    """As alone, and the sum, which the next layer adds to."""
    total = residual(g, x, skip, bias)
    return g.layer_normalization(total, gamma, beta, axis=-1, epsilon=epsilon), total


def node(
    g: Graph,
    x: Tensor,
    skip: Tensor,
    gamma: Constant,
    epsilon: float,
    beta: Constant | None = None,
    bias: Constant | None = None,
) -> Tensor:
    """com.microsoft::SkipLayerNormalization of which the sum is not used."""
    return g.ms_skip_layer_normalization(x, skip, gamma, beta, bias, epsilon=epsilon)


def node_with_sum(
    g: Graph,
    x: Tensor,
    skip: Tensor,
    gamma: Constant,
    epsilon: float,
    beta: Constant | None = None,
    bias: Constant | None = None,
) -> tuple[Tensor, Tensor]:
    """com.microsoft::SkipLayerNormalization and the sum that it normalised."""
    made = g.ms_skip_layer_normalization(x, skip, gamma, beta, bias, epsilon=epsilon, outputs=4)
    return made[0], made[3]


@rule(patterns=[alone, with_sum], conditions=[is_a_residual], form_patterns=[node, node_with_sum])
def skip_layer_norm(
    g: Graph,
    match: Match,
    x: Tensor,
    skip: Tensor,
    gamma: Constant,
    epsilon: float,
    beta: Constant | None = None,
    bias: Constant | None = None,
) -> object:
    """Fuse a residual and the layer normalisation behind it into com.microsoft::SkipLayerNormalization.

    What: LayerNorm(x + bias + skip) over the last axis, where the bias may be left out, and the sum itself where
    something else reads it too.  The normalisation is one node, as the rule layer_norm makes it.
    Numerics: rounding only; ONNX Runtime adds up a row one element after the other.
    """
    write = node if len(match.outputs) == 1 else node_with_sum
    return write(g, x, skip, gamma, epsilon, beta, bias)


@skip_layer_norm.on("decomposed")
def _(
    g: Graph,
    match: Match,
    x: Tensor,
    skip: Tensor,
    gamma: Constant,
    epsilon: float,
    beta: Constant | None = None,
    bias: Constant | None = None,
) -> object:
    total = summed(g, x, skip, bias)
    made = written_out(g, total, gamma, beta, [-1], epsilon)
    return made if len(match.outputs) == 1 else (made, total)
