"""A residual and the root mean square normalisation behind it."""

from surgeon import Constant, Graph, Match, Tensor, rule
from ._residuals import is_a_residual, residual, summed
from .rms_norm import written_out


def alone(g: Graph, x: Tensor, skip: Tensor, bias: Constant, gamma: Constant, epsilon: float) -> Tensor:
    """RMSNorm(x + bias + skip), where the normalisation is one node, and there may be no bias."""
    return with_sum(g, x, skip, bias, gamma, epsilon)[0]


def with_sum(
    g: Graph, x: Tensor, skip: Tensor, bias: Constant, gamma: Constant, epsilon: float
) -> tuple[Tensor, Tensor]:
    """As alone, and the sum, which the next layer adds to."""
    total = residual(g, x, skip, bias)
    runtimes = g.simplified_layer_normalization(total, gamma, axis=-1, epsilon=epsilon)
    return g.any_of(runtimes, g.rms_normalization(total, gamma, axis=-1, epsilon=epsilon)), total


def node(g: Graph, x: Tensor, skip: Tensor, gamma: Constant, epsilon: float, bias: Constant | None = None) -> Tensor:
    """com.microsoft::SkipSimplifiedLayerNormalization of which the sum is not used."""
    return g.ms_skip_simplified_layer_normalization(x, skip, gamma, bias, epsilon=epsilon)


def node_with_sum(
    g: Graph, x: Tensor, skip: Tensor, gamma: Constant, epsilon: float, bias: Constant | None = None
) -> tuple[Tensor, Tensor]:
    """com.microsoft::SkipSimplifiedLayerNormalization and the sum that it normalised."""
    made = g.ms_skip_simplified_layer_normalization(x, skip, gamma, bias, epsilon=epsilon, outputs=4)
    return made[0], made[3]


@rule(patterns=[alone, with_sum], conditions=[is_a_residual], form_patterns=[node, node_with_sum])
def skip_rms_norm(
    g: Graph, match: Match, x: Tensor, skip: Tensor, gamma: Constant, epsilon: float, bias: Constant | None = None
) -> object:
    """Fuse a residual and the RMSNorm behind it into com.microsoft::SkipSimplifiedLayerNormalization.

    What: RMSNorm(x + bias + skip) over the last axis, where the bias may be left out, and the sum itself where
    something else reads it too.  The normalisation is one node, as the rule rms_norm makes it.
    Numerics: rounding only; half precision is normalised in float32.
    """
    write = node if len(match.outputs) == 1 else node_with_sum
    return write(g, x, skip, gamma, epsilon, bias)


@skip_rms_norm.on("decomposed")
def _(
    g: Graph, match: Match, x: Tensor, skip: Tensor, gamma: Constant, epsilon: float, bias: Constant | None = None
) -> object:
    total = summed(g, x, skip, bias)
    made = written_out(g, total, gamma, [-1], epsilon)
    return made if len(match.outputs) == 1 else (made, total)
