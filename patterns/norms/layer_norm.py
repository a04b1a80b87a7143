"""Layer normalisation (Ba, Kiros and Hinton, arXiv:1607.06450), over the last axis or the last few."""

from collections.abc import Sequence
from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule
from .._common.axes import first_axis, from_axis, over_named_axes, scale_or_ones, spanning
from .._common.floats import for_epsilon, narrowed, widened


class Layer(Captures):
    """What is normalised over which axes, or from which axis on, and what it is scaled and shifted by."""

    x: Tensor
    axes: list[int] | Any = None
    axis: int | Any = None
    epsilon: float = 0.0
    scale: Tensor | Any = None
    bias: Tensor | Any = None


def normalised(g: Graph, m: Layer, axes: list[int], *factors: Tensor) -> Tensor:
    """(x − mean) / √(variance + ε), perhaps in a wider dtype; some exporters lose an ε of 1e-12."""
    variance = g.variance_over(m.x, axes)
    centred = g.maybe_wider(g.centred(g.maybe_wider(m.x), axes))
    return g.over_root(g.mul(centred, *factors) if factors else centred, g.optional(g.add(variance, m.epsilon)))


def scaled_and_shifted(g: Graph, m: Layer) -> Tensor:
    """(x − mean) / √(variance + ε) · scale + bias."""
    return g.add(scaled(g, m), m.bias)


def scaled(g: Graph, m: Layer) -> Tensor:
    """(x − mean) / √(variance + ε) · scale, scaled before or after it is divided."""
    return g.any_of(g.mul(g.maybe_narrower(normalised(g, m, m.axes)), m.scale), normalised(g, m, m.axes, m.scale))


def plain(g: Graph, m: Layer) -> Tensor:
    """(x − mean) / √(variance + ε)."""
    return g.maybe_narrower(normalised(g, m, m.axes))


def of_centred(g: Graph, m: Layer) -> Tensor:
    """The RMSNormalization of x − mean, as torch's dynamo exporter writes some of them from opset 23."""
    normal = g.rms_normalization(g.centred(m.x, m.axes), m.scale, axis=m.axis, epsilon=m.epsilon)
    return g.optional(g.add(normal, m.bias))


def one_node(g: Graph, m: Layer) -> Tensor:
    """LayerNormalization."""
    return g.layer_normalization(m.x, m.scale, m.bias, axis=m.axis, epsilon=m.epsilon)


@rule(
    patterns=[scaled_and_shifted, scaled, plain, of_centred],
    conditions=[over_named_axes],
    target={"onnx": 17, "ort": 1},
    form_patterns=[one_node],
)
def layer_norm(g: Graph, m: Layer) -> Tensor:
    """Fuse a layer normalisation into one LayerNormalization node.

    What: (x − mean) / √(variance + ε) · scale + bias over the last axes, in the dtype of x or in a wider one.  Without
    a scale it gets ones.  Below opset 17 it is ONNX Runtime's own op of that name, in the default domain.
    Numerics: rounding only; half precision is computed in float32.
    TensorRT: the node is one normalization layer.  Its release notes (8.6) ask for the function ops of opset 17 and 18,
    above all in mixed precision: they keep more digits than the primitives.
    """
    first = first_axis(m.x, m.axes)
    same = m.axis is None or from_axis(m.x, m.axis)[0] == first
    require(same, "mean and mean of squares must be over the same axes")
    scale, bias = (spanning(m.x, first, factor) for factor in (m.scale, m.bias))
    told = for_epsilon(g, m.x, m.epsilon)
    return g.layer_normalization(told, scale_or_ones(m.x, scale, first), bias, axis=first, epsilon=m.epsilon)


@layer_norm.on("decomposed")
def _(g: Graph, m: Layer) -> Tensor:
    require(m.axis is not None, "it is in parts already")
    axes = from_axis(m.x, m.axis, m.scale, m.bias)
    require(m.x.dtype is not None, "the dtype of the input is unknown")
    return written_out(g, m.x, m.scale, m.bias, axes, m.epsilon)


def written_out(g: Graph, x: Tensor, scale: Tensor, bias: Tensor | None, axes: Sequence[int], epsilon: float) -> Tensor:
    """The normalisation from primitives; of half precision in float32, scale and bias too, as ONNX Runtime has it."""
    return narrowed(g, of_wide(g, widened(g, x), scale, bias, axes, epsilon), x)


def of_wide(g: Graph, x: Tensor, scale: Tensor, bias: Tensor | None, axes: Sequence[int], epsilon: float) -> Tensor:
    """The same of what is no half precision; scale and bias may be."""
    centred = g.centred(x, axes)
    normal = g.over_root(centred, g.add(g.mean_over(g.square(centred), axes), epsilon))
    scaled_ = g.mul(normal, widened(g, scale))
    return scaled_ if bias is None else g.add(scaled_, widened(g, bias))
