"""Instance normalisation (Ulyanov, Vedaldi and Lempitsky, arXiv:1607.08022)."""

from math import prod

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule
from ._axes import over_named_axes
from ._moments import normalised, per_channel, require_spatial, scaled_and_shifted
from ._numbers import for_epsilon


def by_moments(g: Graph, x: Tensor, scale: Constant, bias: Constant, axes: list[int], epsilon: float) -> Tensor:
    """(x − mean) / √(variance + ε) over the axes behind the channels, · scale + bias."""
    return scaled_and_shifted(g, normalised(g, x, axes, epsilon), scale, bias)


def is_all(constant: Constant, number: float) -> None:
    """The node's own scale, or bias, does nothing."""
    require(bool(np.all(constant.values == number)), "the node has a scale and a bias of its own")


def with_scale_behind(g: Graph, x: Tensor, scale: Constant, bias: Constant, epsilon: float) -> Tensor:
    """InstanceNormalization with scale one and bias zero, and another scale and bias behind it."""
    ones, zeros = g.such_that(g.any_tensor(), is_all, 1.0), g.such_that(g.any_tensor(), is_all, 0.0)
    return g.add(g.mul(g.instance_normalization(x, ones, zeros, epsilon=epsilon), scale), bias)


def one_node(g: Graph, x: Tensor, scale: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """InstanceNormalization."""
    return g.instance_normalization(x, scale, bias, epsilon=epsilon)


def are_spatial(
    x: Tensor, axes: list[int] | None = None, scale: Tensor | None = None, bias: Tensor | None = None
) -> None:
    """Over the only axis behind the channels, and without a scale for each, it is a layer normalisation."""
    if axes is not None:
        require_spatial(x, axes)
        has_scale = any(size != 1 for item in (scale, bias) if item is not None for size in (item.shape or ())[:-1])
        require(x.rank > 3 or has_scale, "over the last axis alone it is a layer normalisation")
        sizes = x.shape[2:]
        require(all(isinstance(size, int) for size in sizes), "the sizes behind the channels must be fixed")
        require(prod(sizes) > 1, "of a single number ONNX Runtime's kernel loses digits")


@rule(
    patterns=[by_moments, with_scale_behind],
    conditions=[over_named_axes, are_spatial],
    target="onnx",
    form_patterns=[one_node],
)
def instance_norm(
    g: Graph, x: Tensor, epsilon: float, scale: Constant | None = None, bias: Constant | None = None
) -> Tensor:
    """Fuse an instance normalisation into one InstanceNormalization node.

    What: each channel of each image less its mean, over √(its variance + ε), then · scale + bias for each channel; a
    scale and a bias behind a node that has none move into it.
    Numerics: rounding only; but ONNX Runtime multiplies x before it takes the mean off, which for a single number (one
    pixel, where the result is the bias alone) loses digits, so the sizes behind the channels must be fixed.
    TensorRT: the node is one normalization layer.
    """
    told = for_epsilon(g, x, epsilon)
    return g.instance_normalization(told, per_channel(x, scale, 1), per_channel(x, bias, 0), epsilon=epsilon)


@instance_norm.on("decomposed")
def _(g: Graph, x: Tensor, scale: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    require(x.rank is not None and x.dtype is not None, "the rank or the dtype of the input is unknown")
    require(x.dtype != "float64", "ONNX Runtime has no kernel for a double to hold it against")
    axes, shape = tuple(range(2, x.rank)), (-1, *[1] * (x.rank - 2))
    wide = g.cast(x, to="float32") if x.dtype in ("float16", "bfloat16") else x
    centred = g.centred(wide, axes)
    normal = g.over_root(centred, g.add(g.mean_over(g.square(centred), axes), epsilon))
    narrow = normal if wide is x else g.cast(normal, to=x.dtype)
    return g.add(g.mul(narrow, g.reshape(scale, shape)), g.reshape(bias, shape))
