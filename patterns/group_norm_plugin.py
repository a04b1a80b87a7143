"""Group normalisation as TensorRT's plugin."""

from typing import Any

from surgeon import Constant, Graph, Tensor, require, rule
from ._axes import over_named_axes
from ._groups import are_groups, by_instances, by_moments, number_of, standard_node, vectors

VERSION: dict[str, Any] = {"plugin_version": "1", "plugin_namespace": ""}


@rule(
    patterns=[by_instances, by_moments, standard_node],
    conditions=[over_named_axes, are_groups],
    target="tensorrt",
    dtypes="float32",
)
def group_norm_plugin(
    g: Graph,
    x: Tensor,
    epsilon: float,
    scale: Constant | None = None,
    bias: Constant | None = None,
    groups: Tensor | None = None,
    num_groups: int = 0,
) -> Any:
    """Fuse a group normalisation into TensorRT's plugin GroupNormalizationPlugin.

    What: that of group_norm, of four axes and in float32, which is all that the plugin takes; also the standard's node.
    Numerics: rounding only.
    TensorRT: use it where an engine is built by a TensorRT older than 8.6, or the model's opset has to stay below 21.
    Else group_norm writes the standard's node, one layer of TensorRT's own, which NVIDIA recommends: the plugin is
    deprecated since 10.12, and TensorRT-RTX has it not.  Named before the group `tensorrt`, which leaves nothing to it.
    """
    require(x.rank == 4, "the plugin takes four axes")
    require(groups is not None or g.opset >= 21, "before opset 21 the node has one scale for a group")
    number = num_groups if groups is None else number_of(groups)
    settings: dict[str, Any] = {"eps": epsilon, "num_groups": number}
    return g.op("trt.plugins::GroupNormalizationPlugin", x, *vectors(x, groups, scale, bias), **settings, **VERSION)
