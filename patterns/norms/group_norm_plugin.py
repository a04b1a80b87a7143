"""Group normalisation as a TensorRT plugin."""

from typing import Any

from surgeon import Graph, require, rule
from .._common.axes import has_explicit_axes
from ._group_norm import GroupNorm, instance_norm_form, is_valid_grouping, mean_variance_form, onnx_group_norm

VERSION: dict[str, Any] = {"plugin_version": "1", "plugin_namespace": ""}


@rule(
    patterns=[instance_norm_form, mean_variance_form, onnx_group_norm],
    conditions=[has_explicit_axes, is_valid_grouping],
    target="tensorrt",
    dtypes="float32",
)
def group_norm_plugin(g: Graph, m: GroupNorm) -> Any:
    """Fuse a group normalisation into the TensorRT plugin GroupNormalizationPlugin.

    What: a group normalisation as in group_norm, or the standard node, with four axes and in float32.  The plugin
    supports nothing else.
    Numerics: rounding only.
    TensorRT: use it for engines that TensorRT before 8.6 builds, or for a model whose opset must stay below 21.
    Otherwise use group_norm: it writes the standard node, which is one native layer of TensorRT and which NVIDIA
    recommends.  The plugin is deprecated since 10.12, and TensorRT-RTX does not have it.  Name this rule before the
    group `tensorrt`, because that group leaves no group normalisation to match.
    """
    require(m.x.rank == 4, "the plugin needs four axes")
    require(m.groups is not None or g.opset >= 21, "before opset 21 the node has one scale for each group")
    settings: dict[str, Any] = {"eps": m.epsilon, "num_groups": m.number}
    return g.op("trt.plugins::GroupNormalizationPlugin", m.x, *m.vectors(), **settings, **VERSION)
