"""A group normalisation followed by a SiLU, as in diffusion models."""

from surgeon import Graph, Tensor, rule
from .._common.axes import has_explicit_axes
from ._group_norm import (
    GroupNorm,
    emit_ort_group_norm,
    instance_norm_form,
    is_valid_grouping,
    mean_variance_form,
    onnx_group_norm,
    ort_group_norm,
    ort_group_norm_nhwc,
)
from .group_norm import decomposed


def of_parts(g: Graph, m: GroupNorm) -> Tensor:
    """y · σ(y) after a decomposed group normalisation."""
    y = g.any_of(instance_norm_form(g, m), mean_variance_form(g, m))
    return g.mul(y, g.sigmoid(y))


def of_a_node(g: Graph, m: GroupNorm) -> Tensor:
    """A SiLU, possibly one node, after GroupNormalization or com.microsoft::GroupNorm as group_norm writes it."""
    y = g.any_of(onnx_group_norm(g, m), ort_group_norm(g, m))
    return g.any_of(g.mul(y, g.sigmoid(y)), g.ms_quick_gelu(y, alpha=1.0), g.swish(y, alpha=1.0))


def one_node(g: Graph, m: GroupNorm) -> Tensor:
    """com.microsoft::GroupNorm with its activation."""
    return ort_group_norm_nhwc(g, m.x, m.scale, bias=m.bias, groups=m.num_groups, epsilon=m.epsilon, act=1)


@rule(patterns=[of_parts, of_a_node], conditions=[has_explicit_axes, is_valid_grouping], form_patterns=[one_node])
def group_norm_silu(g: Graph, m: GroupNorm) -> Tensor:
    """Fuse a group normalisation and the SiLU after it into one com.microsoft::GroupNorm for GPUs.

    What: y · σ(y). y is a group normalisation that the rule group_norm matches, or one node.
    Numerics: as group_norm.
    """
    return emit_ort_group_norm(g, m, act=1)


@group_norm_silu.on("decomposed")
def _(g: Graph, m: GroupNorm) -> Tensor:
    written: Tensor = decomposed(g, m, act=1)
    return written
