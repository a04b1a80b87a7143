"""Instance normalisation (Ulyanov, Vedaldi and Lempitsky, arXiv:1607.08022)."""

from math import prod
from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from .._common.axes import has_explicit_axes
from .._common.floats import rescaled_for_epsilon
from ._per_channel import as_channel_vector, normalised, require_spatial, scaled_and_shifted


class InstanceNorm(Captures):
    """The input of a normalisation over the axes after the channels, or of a node, and a scale and a bias."""

    x: Tensor
    epsilon: float
    scale: Constant | Any = None
    bias: Constant | Any = None
    axes: list[int] | Any = None


def by_moments(g: Graph, m: InstanceNorm) -> Tensor:
    """(x − mean) / √(variance + ε) over the axes after the channels, · scale + bias."""
    return scaled_and_shifted(g, normalised(g, m.x, m.axes, m.epsilon), m.scale, m.bias)


def is_all(constant: Constant, number: float) -> None:
    """Require a scale or bias of the node that has no effect."""
    require(bool(np.all(constant.values == number)), "the node must have scale one and bias zero")


def with_scale_behind(g: Graph, m: InstanceNorm) -> Tensor:
    """InstanceNormalization with scale one and bias zero, followed by another scale and bias."""
    ones, zeros = (g.such_that(g.any_tensor(), is_all, number) for number in (1.0, 0.0))
    return g.add(g.mul(g.instance_normalization(m.x, ones, zeros, epsilon=m.epsilon), m.scale), m.bias)


def one_node(g: Graph, m: InstanceNorm) -> Tensor:
    """InstanceNormalization."""
    return g.instance_normalization(m.x, m.scale, m.bias, epsilon=m.epsilon)


def are_several(m: InstanceNorm) -> None:
    """Refuse channels of one number: the result is the bias, but the kernel of ONNX Runtime adds a rounding error."""
    require(m.x.shape is not None, "the rank of x is unknown")
    fixed = prod(size for size in m.x.shape[2:] if isinstance(size, int))
    require(
        fixed > 1,
        "one size after the channels must be fixed at 2 or more: for one number the kernel of ONNX Runtime "
        "loses digits",
    )


def are_spatial(m: InstanceNorm) -> None:
    """Refuse a normalisation over only the last axis without a scale for each channel: it is a layer normalisation."""
    if m.axes is not None:
        require_spatial(m.x, m.axes)
        factors = (item.shape or () for item in (m.scale, m.bias) if item is not None)
        has_scale = any(size != 1 for shape in factors for size in shape[:-1])
        require(m.x.rank > 3 or has_scale, "over only the last axis it is a layer normalisation")


@rule(
    patterns=[by_moments, with_scale_behind],
    conditions=[has_explicit_axes, are_spatial, are_several],
    target="onnx",
    form_patterns=[one_node],
)
def instance_norm(g: Graph, m: InstanceNorm) -> Tensor:
    """Fuse an instance normalisation into one InstanceNormalization node.

    What: (x − mean) / √(variance + ε) with the mean and variance of each channel of each image, then · scale + bias for
    each channel.  If the graph has an InstanceNormalization with scale one and bias zero, the scale and bias after it
    move into it.
    Numerics: rounding only.  ONNX Runtime multiplies x before it subtracts the mean.  This loses digits if a channel
    has only one pixel, whose result is the bias.  So a size after the channels must be fixed and larger than 1.
    TensorRT: the node is one normalization layer.
    """
    x = rescaled_for_epsilon(g, m.x, m.epsilon)
    return g.instance_normalization(
        x, as_channel_vector(m.x, m.scale, 1), as_channel_vector(m.x, m.bias, 0), epsilon=m.epsilon
    )


@instance_norm.on("decomposed")
def _(g: Graph, m: InstanceNorm) -> Tensor:
    x = m.x
    require(x.rank is not None and x.dtype is not None, "the rank or the dtype of the input is unknown")
    require(x.dtype != "float64", "ONNX Runtime has no float64 kernel to compare the result with")
    axes, shape = tuple(range(2, x.rank)), (-1, *[1] * (x.rank - 2))
    wide = g.cast(x, to="float32") if x.dtype in ("float16", "bfloat16") else x
    centred = g.centred(wide, axes)
    normal = g.over_root(centred, g.add(g.mean_over(g.square(centred), axes), m.epsilon))
    narrow = normal if wide is x else g.cast(normal, to=x.dtype)
    return g.add(g.mul(narrow, g.reshape(m.scale, shape)), g.reshape(m.bias, shape))
