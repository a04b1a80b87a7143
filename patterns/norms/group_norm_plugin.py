"""Group normalisation as TensorRT's plugin."""

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
    """Fuse a group normalisation into TensorRT's plugin GroupNormalizationPlugin.

    What: that of group_norm, of four axes and in float32, which is all that the plugin takes; also the standard's node.
    Numerics: rounding only.
    TensorRT: use it where an engine is built by a TensorRT older than 8.6, or the model's opset has to stay below 21.
    Else group_norm writes the standard's node, one layer of TensorRT's own, which NVIDIA recommends: the plugin is
    deprecated since 10.12, and TensorRT-RTX has it not.  Named before the group `tensorrt`, which leaves nothing to it.
    """
    require(m.x.rank == 4, "the plugin takes four axes")
    require(m.groups is not None or g.opset >= 21, "before opset 21 the node has one scale for a group")
    settings: dict[str, Any] = {"eps": m.epsilon, "num_groups": m.number}
    return g.op("trt.plugins::GroupNormalizationPlugin", m.x, *m.vectors(), **settings, **VERSION)
