"""Root mean square normalisation (Zhang and Sennrich, arXiv:1910.07467), over the last axis or the last few."""

from collections.abc import Sequence
from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule
from .._common.axes import Array, as_norm_scale, has_explicit_axes, require_trailing_axes, scale_or_ones, trailing_axes
from .._common.floats import half_to_float32, narrowed, rescaled_for_epsilon


class RmsNorm(Captures):
    """The input, the axes or the first axis of the normalisation, and the scale."""

    x: Tensor
    scale: Tensor | Any = None
    axes: list[int] | Any = None
    axis: int | Any = None
    epsilon: float = 0.0


def normalised(g: Graph, m: RmsNorm, *factors: Tensor) -> Tensor:
    """x / √(mean(x²) + ε), optionally in a wider dtype.  Without an ε also √n · x / √Σx²."""
    wide = g.maybe_wider(m.x)
    scaled_ = g.mul(wide, *factors) if factors else wide
    root = g.add(g.mean_of_squares(wide, m.axes), m.epsilon)
    return g.any_of(g.over_root(scaled_, root), g.over_root_mean_square(scaled_, wide, m.axes))


def sandwiched(g: Graph, m: RmsNorm) -> Tensor:
    """x / √(mean(x²) + ε) · scale between two Casts.  The Cast of the scale is already folded."""
    wide = g.cast(m.x, to=1)
    normal = g.mul(g.over_root(wide, g.add(g.mean_of_squares(wide, m.axes), m.epsilon)), m.scale)
    return g.any_of(g.cast(normal, to=10), g.cast(normal, to=16))


def scaled(g: Graph, m: RmsNorm) -> Tensor:
    """x / √(mean(x²) + ε) · scale.  The scale may be applied before or after a Cast back, or before the division."""
    normal = normalised(g, m)
    return g.any_of(
        g.mul(g.maybe_narrower(normal), m.scale),
        g.maybe_narrower(g.mul(normal, m.scale)),
        normalised(g, m, m.scale),
    )


def plain(g: Graph, m: RmsNorm) -> Tensor:
    """x / √(mean(x²) + ε)."""
    return g.maybe_narrower(normalised(g, m))


def standard(g: Graph, m: RmsNorm) -> Tensor:
    """RMSNormalization."""
    return g.rms_normalization(m.x, m.scale, axis=m.axis, epsilon=m.epsilon)


def simplified(g: Graph, m: RmsNorm) -> Tensor:
    """SimplifiedLayerNormalization, which ONNX Runtime defines in the default domain."""
    return g.simplified_layer_normalization(m.x, m.scale, axis=m.axis, epsilon=m.epsilon)


def _first_and_scale(m: RmsNorm) -> tuple[int, Tensor | Array]:
    """Return the first axis, counted from the end, and the scale in the dtype of x, or ones if the scale is missing."""
    first = require_trailing_axes(m.x, m.axes) if m.axes else m.axis
    return first, scale_or_ones(m.x, as_norm_scale(m.x, first, m.scale), first)


@rule(patterns=[sandwiched, scaled, plain], conditions=[has_explicit_axes], target="ort", form_patterns=[simplified])
def rms_norm(g: Graph, m: RmsNorm) -> Tensor:
    """Fuse a root mean square normalisation into SimplifiedLayerNormalization, or RMSNormalization from opset 23.

    What: x / √(mean(x²) + ε) · scale over the last axes, in the dtype of x or in a wider one.  The scale is applied
    before or after a Cast back, as in Llama and T5.  1 + weight, as in Gemma, also counts as a scale.  A missing scale
    becomes a constant of ones.
    Numerics: rounding only.  Half precision is computed in float32.
    TensorRT: it has no layer for this op.  Its parser decomposes RMSNormalization, in float32 between Casts.
    """
    first, factor = _first_and_scale(m)
    return g.simplified_layer_normalization(
        rescaled_for_epsilon(g, m.x, m.epsilon), factor, axis=first, epsilon=m.epsilon
    )


@rms_norm.on("onnx", opset=23, patterns=[standard])
def _(g: Graph, m: RmsNorm) -> Tensor:
    first, factor = _first_and_scale(m)
    return g.rms_normalization(rescaled_for_epsilon(g, m.x, m.epsilon), factor, axis=first, epsilon=m.epsilon)


@rms_norm.on("decomposed")
def _(g: Graph, m: RmsNorm) -> Tensor:
    require(m.axis is not None, "it is already decomposed")
    require(m.x.dtype is not None, "the dtype of the input is unknown")
    return decompose_rms_norm(g, m.x, m.scale, axes=trailing_axes(m.x, m.axis, m.scale), epsilon=m.epsilon)


def decompose_rms_norm(g: Graph, x: Tensor, scale: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """Decompose the normalisation into primitives.  Half precision is computed in float32, the scale too."""
    return narrowed(g, of_wide(g, half_to_float32(g, x), scale, axes=axes, epsilon=epsilon), x)


def of_wide(g: Graph, x: Tensor, scale: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """Decompose it for an input that is not half precision.  The scale may be half precision."""
    return g.mul(g.over_root(x, g.add(g.mean_of_squares(x, axes), epsilon)), half_to_float32(g, scale))
