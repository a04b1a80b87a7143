"""Instance normalisation (Ulyanov, Vedaldi and Lempitsky, arXiv:1607.08022)."""

from math import prod
from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from .._common.axes import has_explicit_axes
from .._common.floats import rescaled_for_epsilon
from ._per_channel import as_channel_vector, normalised, require_spatial, scaled_and_shifted


class InstanceNorm(Captures):
    """What is normalised over axes behind the channels, or by a node, and a scale and a bias."""

    x: Tensor
    epsilon: float
    scale: Constant | Any = None
    bias: Constant | Any = None
    axes: list[int] | Any = None


def by_moments(g: Graph, m: InstanceNorm) -> Tensor:
    """(x − mean) / √(variance + ε) over the axes behind the channels, · scale + bias."""
    return scaled_and_shifted(g, normalised(g, m.x, m.axes, m.epsilon), m.scale, m.bias)


def is_all(constant: Constant, number: float) -> None:
    """The node's own scale, or bias, does nothing."""
    require(bool(np.all(constant.values == number)), "the node has a scale and a bias of its own")


def with_scale_behind(g: Graph, m: InstanceNorm) -> Tensor:
    """InstanceNormalization with scale one and bias zero, and another scale and bias behind it."""
    ones, zeros = (g.such_that(g.any_tensor(), is_all, number) for number in (1.0, 0.0))
    return g.add(g.mul(g.instance_normalization(m.x, ones, zeros, epsilon=m.epsilon), m.scale), m.bias)


def one_node(g: Graph, m: InstanceNorm) -> Tensor:
    """InstanceNormalization."""
    return g.instance_normalization(m.x, m.scale, m.bias, epsilon=m.epsilon)


def are_several(m: InstanceNorm) -> None:
    """Of a single number the result is the bias, to which ONNX Runtime's kernel adds what x loses when it is scaled."""
    require(m.x.shape is not None, "the rank of x is unknown")
    fixed = prod(size for size in m.x.shape[2:] if isinstance(size, int))
    require(fixed > 1, "of a single number ONNX Runtime's kernel loses digits, so one size must be fixed at 2 or more")


def are_spatial(m: InstanceNorm) -> None:
    """Over the only axis behind the channels, and without a scale for each, it is a layer normalisation."""
    if m.axes is not None:
        require_spatial(m.x, m.axes)
        factors = (item.shape or () for item in (m.scale, m.bias) if item is not None)
        has_scale = any(size != 1 for shape in factors for size in shape[:-1])
        require(m.x.rank > 3 or has_scale, "over the last axis alone it is a layer normalisation")


@rule(
    patterns=[by_moments, with_scale_behind],
    conditions=[has_explicit_axes, are_spatial, are_several],
    target="onnx",
    form_patterns=[one_node],
)
def instance_norm(g: Graph, m: InstanceNorm) -> Tensor:
    """Fuse an instance normalisation into one InstanceNormalization node.

    What: each channel of each image less its mean, over √(its variance + ε), then · scale + bias for each channel; a
    scale and a bias behind a node that has none move into it.
    Numerics: rounding only; but ONNX Runtime multiplies x before it takes the mean off, which for a single number (one
    pixel, where the result is the bias) loses digits, so a size behind the channels must be fixed and larger than 1.
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
    require(x.dtype != "float64", "ONNX Runtime has no kernel for a double to hold it against")
    axes, shape = tuple(range(2, x.rank)), (-1, *[1] * (x.rank - 2))
    wide = g.cast(x, to="float32") if x.dtype in ("float16", "bfloat16") else x
    centred = g.centred(wide, axes)
    normal = g.over_root(centred, g.add(g.mean_over(g.square(centred), axes), m.epsilon))
    narrow = normal if wide is x else g.cast(normal, to=x.dtype)
    return g.add(g.mul(narrow, g.reshape(m.scale, shape)), g.reshape(m.bias, shape))
