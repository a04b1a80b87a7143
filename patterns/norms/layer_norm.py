"""Layer normalisation (Ba, Kiros and Hinton, arXiv:1607.06450), over the last axis or the last few."""

from collections.abc import Sequence
from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule
from .._common.axes import as_norm_scale, has_explicit_axes, require_trailing_axes, scale_or_ones, trailing_axes
from .._common.floats import half_to_float32, narrowed, rescaled_for_epsilon


class LayerNorm(Captures):
    """The input, the axes or the first axis of the normalisation, and the scale and bias."""

    x: Tensor
    axes: list[int] | Any = None
    axis: int | Any = None
    epsilon: float = 0.0
    scale: Tensor | Any = None
    bias: Tensor | Any = None


def normalised(g: Graph, m: LayerNorm, axes: list[int], *factors: Tensor) -> Tensor:
    """(x − mean) / √(variance + ε), optionally in a wider dtype.  Some exporters lose an ε of 1e-12."""
    variance = g.variance_over(m.x, axes)
    centred = g.maybe_wider(g.centred(g.maybe_wider(m.x), axes))
    return g.over_root(g.mul(centred, *factors) if factors else centred, g.optional(g.add(variance, m.epsilon)))


def scaled_and_shifted(g: Graph, m: LayerNorm) -> Tensor:
    """(x − mean) / √(variance + ε) · scale + bias."""
    return g.add(scaled(g, m), m.bias)


def scaled(g: Graph, m: LayerNorm) -> Tensor:
    """(x − mean) / √(variance + ε) · scale.  The scale may be applied before the division."""
    return g.any_of(g.mul(g.maybe_narrower(normalised(g, m, m.axes)), m.scale), normalised(g, m, m.axes, m.scale))


def plain(g: Graph, m: LayerNorm) -> Tensor:
    """(x − mean) / √(variance + ε)."""
    return g.maybe_narrower(normalised(g, m, m.axes))


def of_centred(g: Graph, m: LayerNorm) -> Tensor:
    """The RMSNormalization of x − mean, which the dynamo exporter of torch sometimes writes from opset 23 on."""
    normal = g.rms_normalization(g.centred(m.x, m.axes), m.scale, axis=m.axis, epsilon=m.epsilon)
    return g.optional(g.add(normal, m.bias))


def one_node(g: Graph, m: LayerNorm) -> Tensor:
    """LayerNormalization."""
    return g.layer_normalization(m.x, m.scale, m.bias, axis=m.axis, epsilon=m.epsilon)


@rule(
    patterns=[scaled_and_shifted, scaled, plain, of_centred],
    conditions=[has_explicit_axes],
    target={"onnx": 17, "ort": 1},
    form_patterns=[one_node],
)
def layer_norm(g: Graph, m: LayerNorm) -> Tensor:
    """Fuse a layer normalisation into one LayerNormalization node.

    What: (x − mean) / √(variance + ε) · scale + bias over the last axes, in the dtype of x or in a wider one.  A
    missing scale becomes a constant of ones.  Below opset 17 the node is the ONNX Runtime op of that name in the
    default domain.
    Numerics: rounding only.  Half precision is computed in float32.
    TensorRT: the node is one normalization layer.  The release notes (8.6) recommend the function ops of opset 17 and
    18, especially in mixed precision, because they keep more digits than the primitives.
    """
    first = require_trailing_axes(m.x, m.axes)
    same = m.axis is None or trailing_axes(m.x, m.axis)[0] == first
    require(same, "the mean and the mean of squares must be over the same axes")
    scale, bias = (as_norm_scale(m.x, first, factor) for factor in (m.scale, m.bias))
    rescaled = rescaled_for_epsilon(g, m.x, m.epsilon)
    return g.layer_normalization(rescaled, scale_or_ones(m.x, scale, first), bias, axis=first, epsilon=m.epsilon)


@layer_norm.on("decomposed")
def _(g: Graph, m: LayerNorm) -> Tensor:
    require(m.axis is not None, "it is already decomposed")
    axes = trailing_axes(m.x, m.axis, m.scale, m.bias)
    require(m.x.dtype is not None, "the dtype of the input is unknown")
    return decompose_layer_norm(g, m.x, m.scale, bias=m.bias, axes=axes, epsilon=m.epsilon)


def decompose_layer_norm(
    g: Graph, x: Tensor, scale: Tensor, bias: Tensor | None, axes: Sequence[int], epsilon: float
) -> Tensor:
    """Decompose the normalisation into primitives.  Half precision is computed in float32, scale and bias too."""
    return narrowed(g, of_wide(g, half_to_float32(g, x), scale, bias=bias, axes=axes, epsilon=epsilon), x)


def of_wide(g: Graph, x: Tensor, scale: Tensor, bias: Tensor | None, axes: Sequence[int], epsilon: float) -> Tensor:
    """Decompose it for an input that is not half precision.  Scale and bias may be half precision."""
    centred = g.centred(x, axes)
    normal = g.over_root(centred, g.add(g.mean_over(g.square(centred), axes), epsilon))
    scaled_ = g.mul(normal, half_to_float32(g, scale))
    return scaled_ if bias is None else g.add(scaled_, half_to_float32(g, bias))
