"""Instance normalisation as TensorRT's plugin, with the activation behind it."""

from typing import Any

from surgeon import Captures, Constant, Graph, Tensor, require, rule

VERSION: dict[str, Any] = {"plugin_version": "3", "plugin_namespace": ""}  # 3: of TensorRT 10.2 and newer


class InstanceNormPlugin(Captures):
    """What is normalised, its scale and bias, and the slope of a LeakyRelu behind it, 0 of a Relu."""

    x: Tensor
    scale: Constant
    bias: Constant
    epsilon: float = 1e-5
    slope: float = 0.0


def normalised(g: Graph, m: InstanceNormPlugin) -> Tensor:
    """InstanceNormalization."""
    return g.instance_normalization(m.x, m.scale, m.bias, epsilon=m.epsilon)


def active(g: Graph, m: InstanceNormPlugin) -> Tensor:
    """Relu or LeakyRelu of it."""
    return g.any_of(g.relu(normalised(g, m)), g.leaky_relu(normalised(g, m), alpha=m.slope))


def written(g: Graph, m: InstanceNormPlugin, **activation: Any) -> Any:
    """The plugin's node."""
    require(m.x.rank in (4, 5), "the plugin takes four or five axes")
    numbers = {name: [float(one) for one in values.values] for name, values in (("scales", m.scale), ("bias", m.bias))}
    settings = {"epsilon": m.epsilon, **numbers, **activation}
    return g.op("trt.plugins::InstanceNormalization_TRT", m.x, **settings, **VERSION)


@rule(patterns=[active], target="tensorrt", dtypes=("float32", "float16"))
def instance_norm_activation_plugin(g: Graph, m: InstanceNormPlugin) -> Any:
    """Fuse an instance normalisation and the Relu or LeakyRelu behind it into TensorRT's InstanceNormalization_TRT.

    What: an InstanceNormalization of four or five axes, its scale and bias constants, and the activation.
    Numerics: rounding only.
    TensorRT: as instance_norm_plugin.
    """
    return written(g, m, relu=1, alpha=m.slope)


@rule(patterns=[normalised], target="tensorrt", dtypes=("float32", "float16"))
def instance_norm_plugin(g: Graph, m: InstanceNormPlugin) -> Any:
    """Write an InstanceNormalization as TensorRT's plugin InstanceNormalization_TRT.

    What: an InstanceNormalization of four or five axes, its scale and bias constants; instance_norm makes one of its
    parts.
    Numerics: rounding only.
    TensorRT: use it for volumes in int8 or channels last (5 axes), for which the plugin has kernels, and where the
    activation is to be one with the norm.  Else the standard's node is one layer of TensorRT's own.  Version 3 of the
    plugin came with 10.2; TensorRT-RTX has it not.  Named behind the group `tensorrt`.
    """
    return written(g, m, relu=0, alpha=0.0)
