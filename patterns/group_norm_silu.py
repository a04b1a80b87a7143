"""A group normalisation and the SiLU behind it, as diffusion models have them."""

from surgeon import Constant, Graph, Tensor, rule
from ._axes import over_named_axes
from ._groups import (
    are_groups,
    by_instances,
    by_moments,
    channels_last,
    node_of_ort,
    number_of,
    standard_node,
    vectors,
    written_for_ort,
)
from .group_norm import decomposed


def gated(g: Graph, y: Tensor) -> Tensor:
    """y · σ(y) from primitives, or as one node."""
    return g.any_of(g.mul(y, g.sigmoid(y)), g.ms_quick_gelu(y, alpha=1.0), g.swish(y, alpha=1.0))


def behind_instances(
    g: Graph, x: Tensor, scale: Constant, bias: Constant, ones: Constant, zeros: Constant, epsilon: float
) -> Tensor:
    """y · σ(y) behind Reshape, InstanceNormalization, Reshape, Mul and Add."""
    y = by_instances(g, x, scale, bias, ones, zeros, epsilon)
    return g.mul(y, g.sigmoid(y))


def behind_moments(g: Graph, x: Tensor, scale: Constant, bias: Constant, axes: list[int], epsilon: float) -> Tensor:
    """y · σ(y) behind Reshape, (x − mean) / √(variance + ε), Reshape, Mul and Add."""
    y = by_moments(g, x, scale, bias, axes, epsilon)
    return g.mul(y, g.sigmoid(y))


def behind_standard_node(
    g: Graph, x: Tensor, scale: Constant, bias: Constant, num_groups: int, epsilon: float
) -> Tensor:
    """A SiLU behind GroupNormalization."""
    return gated(g, standard_node(g, x, scale, bias, num_groups, epsilon))


def behind_node_of_ort(g: Graph, x: Tensor, scale: Constant, bias: Constant, num_groups: int, epsilon: float) -> Tensor:
    """A SiLU behind com.microsoft::GroupNorm, as the rule group_norm writes it."""
    return gated(g, node_of_ort(g, x, scale, bias, num_groups, epsilon))


def one_node(g: Graph, x: Tensor, scale: Constant, bias: Constant, num_groups: int, epsilon: float) -> Tensor:
    """com.microsoft::GroupNorm with its activation."""
    return channels_last(g, x, scale, bias, num_groups, epsilon, 1)


@rule(
    patterns=[behind_instances, behind_moments, behind_standard_node, behind_node_of_ort],
    conditions=[over_named_axes, are_groups],
    form_patterns=[one_node],
)
def group_norm_silu(
    g: Graph,
    x: Tensor,
    epsilon: float,
    scale: Constant | None = None,
    bias: Constant | None = None,
    groups: Tensor | None = None,
    num_groups: int = 0,
) -> Tensor:
    """Fuse a group normalisation and the SiLU behind it into one com.microsoft::GroupNorm for GPUs.

    What: y · σ(y), y being the group normalisation of x as the rule group_norm finds it, or as one node already.
    Numerics: as group_norm.
    """
    number = num_groups if groups is None else number_of(groups)
    return written_for_ort(g, x, vectors(x, groups, scale, bias, "float32"), number, epsilon, act=1)


@group_norm_silu.on("decomposed")
def _(g: Graph, x: Tensor, scale: Constant, bias: Constant, num_groups: int, epsilon: float) -> Tensor:
    written: Tensor = decomposed(g, x, scale, bias, num_groups, epsilon, act=1)
    return written
