"""A residual and the root mean square normalisation after it."""

from surgeon import Graph, Tensor, rule
from .._common.floats import narrowed
from ._residual import Residual, any_residual, either_biased, fits_skip_norm_kernel, is_added, residual_sum
from .rms_norm import of_wide


def with_sum(g: Graph, m: Residual) -> tuple[Tensor, Tensor]:
    """The norm and the sum, which the next layer adds to."""
    total = any_residual(g, m)
    runtimes = g.simplified_layer_normalization(total, m.gamma, axis=-1, epsilon=m.epsilon)
    return g.any_of(runtimes, g.rms_normalization(total, m.gamma, axis=-1, epsilon=m.epsilon)), total


def alone(g: Graph, m: Residual) -> Tensor:
    """RMSNorm(x + bias + skip).  The normalisation is one node, and the bias is optional."""
    return with_sum(g, m)[0]


def node(g: Graph, m: Residual) -> Tensor:
    """com.microsoft::SkipSimplifiedLayerNormalization whose sum is not used."""
    return g.ms_skip_simplified_layer_normalization(m.x, m.skip, m.gamma, m.bias, epsilon=m.epsilon)


def node_with_sum(g: Graph, m: Residual) -> tuple[Tensor, Tensor]:
    """com.microsoft::SkipSimplifiedLayerNormalization and the sum that it normalises."""
    made = g.ms_skip_simplified_layer_normalization(m.x, m.skip, m.gamma, m.bias, epsilon=m.epsilon, outputs=4)
    return made[0], made[3]


def biased_with_sum(g: Graph, m: Residual) -> tuple[Tensor, ...]:
    """The node without a bias, of a tensor with a bias, and the sum."""
    return either_biased(g, m, node_with_sum)


def biased(g: Graph, m: Residual) -> Tensor:
    """The same if the sum is not used."""
    return biased_with_sum(g, m)[0]


@rule(
    patterns=[alone, with_sum, biased, biased_with_sum],
    conditions=[is_added, fits_skip_norm_kernel],
    form_patterns=[node, node_with_sum],
)
def skip_rms_norm(g: Graph, m: Residual) -> object:
    """Fuse a residual and the RMSNorm after it into com.microsoft::SkipSimplifiedLayerNormalization.

    What: RMSNorm(x + bias + skip) over the last axis.  The bias is optional.  The sum may have other consumers.  The
    normalisation must already be one node, which the rule rms_norm produces.
    Numerics: rounding only.  Half precision is normalised in float32.
    """
    return node(g, m) if m.output_count == 1 else node_with_sum(g, m)


@skip_rms_norm.on("decomposed", conditions=[])
def _(g: Graph, m: Residual) -> object:
    total = residual_sum(g, m)
    made = narrowed(g, of_wide(g, total, m.gamma, axes=[-1], epsilon=m.epsilon), m.x)
    return made if m.output_count == 1 else (made, narrowed(g, total, m.x))
