"""A group normalisation and the SiLU behind it, as diffusion models have them."""

from surgeon import Graph, Tensor, rule
from .._common.axes import over_named_axes
from ._group_norm import (
    Grouped,
    are_groups,
    by_instances,
    by_moments,
    channels_last,
    node_of_ort,
    standard_node,
    written_for_ort,
)
from .group_norm import decomposed


def of_parts(g: Graph, m: Grouped) -> Tensor:
    """y · σ(y) behind a group normalisation in parts."""
    y = g.any_of(by_instances(g, m), by_moments(g, m))
    return g.mul(y, g.sigmoid(y))


def of_a_node(g: Graph, m: Grouped) -> Tensor:
    """A SiLU, also as one node, behind GroupNormalization, or com.microsoft::GroupNorm as group_norm writes it."""
    y = g.any_of(standard_node(g, m), node_of_ort(g, m))
    return g.any_of(g.mul(y, g.sigmoid(y)), g.ms_quick_gelu(y, alpha=1.0), g.swish(y, alpha=1.0))


def one_node(g: Graph, m: Grouped) -> Tensor:
    """com.microsoft::GroupNorm with its activation."""
    return channels_last(g, m.x, m.scale, m.bias, m.num_groups, m.epsilon, 1)


@rule(patterns=[of_parts, of_a_node], conditions=[over_named_axes, are_groups], form_patterns=[one_node])
def group_norm_silu(g: Graph, m: Grouped) -> Tensor:
    """Fuse a group normalisation and the SiLU behind it into one com.microsoft::GroupNorm for GPUs.

    What: y · σ(y), y being the group normalisation of x as the rule group_norm finds it, or as one node already.
    Numerics: as group_norm.
    """
    return written_for_ort(g, m, act=1)


@group_norm_silu.on("decomposed")
def _(g: Graph, m: Grouped) -> Tensor:
    written: Tensor = decomposed(g, m, act=1)
    return written
