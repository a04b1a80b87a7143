"""Instance normalisation as a TensorRT plugin, with the activation after it."""

from typing import Any

from surgeon import Captures, Constant, Graph, Tensor, require, rule

VERSION: dict[str, Any] = {"plugin_version": "3", "plugin_namespace": ""}  # version 3 is in TensorRT 10.2 and newer


class InstanceNormPlugin(Captures):
    """The input, scale and bias, and the slope of a LeakyRelu after it, or 0 for a Relu."""

    x: Tensor
    scale: Constant
    bias: Constant
    epsilon: float = 1e-5
    slope: float = 0.0


def normalised(g: Graph, m: InstanceNormPlugin) -> Tensor:
    """InstanceNormalization."""
    return g.instance_normalization(m.x, m.scale, m.bias, epsilon=m.epsilon)


def active(g: Graph, m: InstanceNormPlugin) -> Tensor:
    """Relu or LeakyRelu after it."""
    return g.any_of(g.relu(normalised(g, m)), g.leaky_relu(normalised(g, m), alpha=m.slope))


def written(g: Graph, m: InstanceNormPlugin, **activation: Any) -> Any:
    """The node of the plugin."""
    require(m.x.rank in (4, 5), "the plugin needs four or five axes")
    numbers = {name: [float(one) for one in values.values] for name, values in (("scales", m.scale), ("bias", m.bias))}
    settings = {"epsilon": m.epsilon, **numbers, **activation}
    return g.op("trt.plugins::InstanceNormalization_TRT", m.x, **settings, **VERSION)


@rule(patterns=[active], target="tensorrt", dtypes=("float32", "float16"))
def instance_norm_activation_plugin(g: Graph, m: InstanceNormPlugin) -> Any:
    """Fuse an InstanceNormalization and the Relu or LeakyRelu after it into TensorRT's InstanceNormalization_TRT.

    What: an InstanceNormalization of four or five axes with constant scale and bias, and the activation.
    Numerics: rounding only.
    TensorRT: as instance_norm_plugin.
    """
    return written(g, m, relu=1, alpha=m.slope)


@rule(patterns=[normalised], target="tensorrt", dtypes=("float32", "float16"))
def instance_norm_plugin(g: Graph, m: InstanceNormPlugin) -> Any:
    """Write an InstanceNormalization as the TensorRT plugin InstanceNormalization_TRT.

    What: an InstanceNormalization of four or five axes with constant scale and bias.  For a decomposed one, run the
    rule instance_norm first.
    Numerics: rounding only.
    TensorRT: use it for volumes (5 axes) in int8 or with channels last, for which the plugin has kernels, and to fuse
    the activation into the norm.  Otherwise the standard node is one native layer of TensorRT.  Version 3 of the plugin
    needs TensorRT 10.2, and TensorRT-RTX does not have the plugin.  Name this rule after the group `tensorrt`.
    """
    return written(g, m, relu=0, alpha=0.0)
