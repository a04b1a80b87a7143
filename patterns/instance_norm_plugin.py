"""Instance normalisation as TensorRT's plugin, with the activation behind it."""

from typing import Any

from surgeon import Constant, Graph, Tensor, require, rule

VERSION: dict[str, Any] = {"plugin_version": "3", "plugin_namespace": ""}  # 3: of TensorRT 10.2 and newer


def normalised(g: Graph, x: Tensor, scale: Constant, bias: Constant, epsilon: float = 1e-5) -> Tensor:
    """InstanceNormalization."""
    return g.instance_normalization(x, scale, bias, epsilon=epsilon)


def with_leaky_relu(
    g: Graph, x: Tensor, scale: Constant, bias: Constant, epsilon: float = 1e-5, slope: float = 0.01
) -> Tensor:
    """LeakyRelu of it."""
    return g.leaky_relu(normalised(g, x, scale, bias, epsilon), alpha=slope)


def with_relu(g: Graph, x: Tensor, scale: Constant, bias: Constant, epsilon: float = 1e-5) -> Tensor:
    """Relu of it."""
    return g.relu(normalised(g, x, scale, bias, epsilon))


def written(g: Graph, x: Tensor, scale: Constant, bias: Constant, epsilon: float, **activation: Any) -> Any:
    """The plugin's node."""
    require(x.rank in (4, 5), "the plugin takes four or five axes")
    numbers = {name: [float(one) for one in values.values] for name, values in (("scales", scale), ("bias", bias))}
    settings = {"epsilon": epsilon, **numbers, **activation}
    return g.op("trt.plugins::InstanceNormalization_TRT", x, **settings, **VERSION)


@rule(patterns=[with_relu, with_leaky_relu], target="tensorrt", dtypes=("float32", "float16"))
def active_instance_norm_plugin(
    g: Graph, x: Tensor, scale: Constant, bias: Constant, epsilon: float = 1e-5, slope: float = 0.0
) -> Any:
    """Fuse an instance normalisation and the Relu or LeakyRelu behind it into TensorRT's InstanceNormalization_TRT.

    What: an InstanceNormalization of four or five axes, its scale and bias constants, and the activation.
    Numerics: rounding only.
    TensorRT: as instance_norm_plugin.
    """
    return written(g, x, scale, bias, epsilon, relu=1, alpha=slope)


@rule(patterns=[normalised], target="tensorrt", dtypes=("float32", "float16"))
def instance_norm_plugin(g: Graph, x: Tensor, scale: Constant, bias: Constant, epsilon: float = 1e-5) -> Any:
    """Write an InstanceNormalization as TensorRT's plugin InstanceNormalization_TRT.

    What: an InstanceNormalization of four or five axes, its scale and bias constants; instance_norm makes one of its
    parts.
    Numerics: rounding only.
    TensorRT: use it for volumes in int8 or channels last (5 axes), for which the plugin has kernels, and where the
    activation is to be one with the norm.  Else the standard's node is one layer of TensorRT's own.  Version 3 of the
    plugin came with 10.2; TensorRT-RTX has it not.  Named behind the group `tensorrt`.
    """
    return written(g, x, scale, bias, epsilon, relu=0, alpha=0.0)
