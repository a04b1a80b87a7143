"""Layer normalisation (Ba, Kiros and Hinton, arXiv:1607.06450), over the last axis or the last few."""

from collections.abc import Sequence

from surgeon import Graph, Tensor, require, rule
from ._axes import first_axis, from_axis, over_named_axes, require_spans, scale_or_ones
from ._numbers import for_epsilon, widened


def normalised(g: Graph, x: Tensor, axes: list[int], epsilon: float, *factors: Tensor) -> Tensor:
    """(x − mean) / √(variance + ε), perhaps in a wider dtype; some exporters lose an ε of 1e-12."""
    variance = g.variance_over(x, axes)
    centred = g.maybe_wider(g.centred(g.maybe_wider(x), axes))
    return g.over_root(g.mul(centred, *factors) if factors else centred, g.any_of(g.add(variance, epsilon), variance))


def scaled_and_shifted(g: Graph, x: Tensor, scale: Tensor, bias: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """(x − mean) / √(variance + ε) · scale + bias."""
    return g.add(scaled(g, x, scale, axes, epsilon), bias)


def scaled(g: Graph, x: Tensor, scale: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """(x − mean) / √(variance + ε) · scale, scaled before or after it is divided."""
    normal = g.mul(g.maybe_narrower(normalised(g, x, axes, epsilon)), scale)
    return g.any_of(normal, normalised(g, x, axes, epsilon, scale))


def plain(g: Graph, x: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """(x − mean) / √(variance + ε)."""
    return g.maybe_narrower(normalised(g, x, axes, epsilon))


def of_centred(g: Graph, x: Tensor, scale: Tensor, bias: Tensor, axes: list[int], axis: int, epsilon: float) -> Tensor:
    """The RMSNormalization of x − mean, as torch's dynamo exporter writes some of them from opset 23."""
    normal = g.rms_normalization(g.centred(x, axes), scale, axis=axis, epsilon=epsilon)
    return g.any_of(g.add(normal, bias), normal)


def one_node(g: Graph, x: Tensor, scale: Tensor, axis: int, epsilon: float, bias: Tensor | None = None) -> Tensor:
    """LayerNormalization."""
    return g.layer_normalization(x, scale, bias, axis=axis, epsilon=epsilon)


@rule(
    patterns=[scaled_and_shifted, scaled, plain, of_centred],
    conditions=[over_named_axes],
    target={"onnx": 17, "ort": 1},
    form_patterns=[one_node],
)
def layer_norm(
    g: Graph,
    x: Tensor,
    axes: list[int],
    epsilon: float = 0.0,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    axis: int | None = None,
) -> Tensor:
    """Fuse a layer normalisation into one LayerNormalization node.

    What: (x − mean) / √(variance + ε) · scale + bias over the last axes, in the dtype of x or in a wider one.  Without
    a scale it gets ones.  Below opset 17 it is ONNX Runtime's own op of that name, in the default domain.
    Numerics: rounding only; half precision is computed in float32.
    """
    first = first_axis(x, axes)
    require(axis is None or from_axis(x, axis)[0] == first, "mean and mean of squares must be over the same axes")
    require_spans(x, first, scale, bias)
    told = for_epsilon(g, x, epsilon)
    return g.layer_normalization(told, scale_or_ones(x, scale, first), bias, axis=first, epsilon=epsilon)


@layer_norm.on("decomposed")
def _(g: Graph, x: Tensor, scale: Tensor, axis: int, epsilon: float, bias: Tensor | None = None) -> Tensor:
    axes = from_axis(x, axis, scale, bias)
    require(x.dtype is not None, "the dtype of the input is unknown")
    return written_out(g, x, scale, bias, axes, epsilon)


def written_out(g: Graph, x: Tensor, scale: Tensor, bias: Tensor | None, axes: Sequence[int], epsilon: float) -> Tensor:
    """The normalisation from primitives; of half precision in float32, and scaled in the dtype of x."""
    wide = widened(g, x)
    centred = g.centred(wide, axes)
    normal = g.over_root(centred, g.add(g.mean_over(g.square(centred), axes), epsilon))
    scaled_ = g.mul(g.cast(normal, to=x.dtype) if wide is not x else normal, scale)
    return scaled_ if bias is None else g.add(scaled_, bias)
