"""Root mean square normalisation (Zhang and Sennrich, arXiv:1910.07467), over the last axis or the last few."""

from collections.abc import Sequence

from surgeon import Graph, Tensor, require, rule
from ._axes import Array, first_axis, from_axis, narrowed, over_named_axes, require_spans, scale_or_ones
from ._numbers import for_epsilon, widened


def normalised(g: Graph, x: Tensor, axes: list[int], epsilon: float, *factors: Tensor) -> Tensor:
    """x / √(mean(x²) + ε), perhaps in a wider dtype; without an ε also √n · x / √Σx²."""
    wide = g.maybe_wider(x)
    scaled_ = g.mul(wide, *factors) if factors else wide
    root = g.add(g.mean_of_squares(wide, axes), epsilon)
    return g.any_of(g.over_root(scaled_, root), g.over_root_mean_square(scaled_, wide, axes))


def sandwiched(g: Graph, x: Tensor, scale: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """x / √(mean(x²) + ε) · scale between two casts, where the one of the scale is folded into it."""
    wide = g.cast(x, to=1)
    normal = g.mul(g.over_root(wide, g.add(g.mean_of_squares(wide, axes), epsilon)), scale)
    return g.any_of(g.cast(normal, to=10), g.cast(normal, to=16))


def scaled(g: Graph, x: Tensor, scale: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """x / √(mean(x²) + ε) · scale, scaled before or after a cast back, or before it is divided."""
    normal = normalised(g, x, axes, epsilon)
    return g.any_of(
        g.mul(g.maybe_narrower(normal), scale),
        g.maybe_narrower(g.mul(normal, scale)),
        normalised(g, x, axes, epsilon, scale),
    )


def plain(g: Graph, x: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """x / √(mean(x²) + ε)."""
    return g.maybe_narrower(normalised(g, x, axes, epsilon))


def standard(g: Graph, x: Tensor, scale: Tensor, axis: int, epsilon: float) -> Tensor:
    """RMSNormalization."""
    return g.rms_normalization(x, scale, axis=axis, epsilon=epsilon)


def simplified(g: Graph, x: Tensor, scale: Tensor, axis: int, epsilon: float) -> Tensor:
    """SimplifiedLayerNormalization, which ONNX Runtime has in the default domain."""
    return g.simplified_layer_normalization(x, scale, axis=axis, epsilon=epsilon)


def _first_and_scale(x: Tensor, scale: Tensor | None, axes: list[int] | None, axis: int) -> tuple[int, Tensor | Array]:
    """The first axis, from the end, and the scale in the dtype of x: ones where there is none."""
    first = first_axis(x, axes) if axes else axis
    factor = narrowed(x, scale)
    require_spans(x, first, factor)
    return first, scale_or_ones(x, factor, first)


@rule(patterns=[sandwiched, scaled, plain], conditions=[over_named_axes], target="ort", form_patterns=[simplified])
def rms_norm(
    g: Graph,
    x: Tensor,
    scale: Tensor | None = None,
    axes: list[int] | None = None,
    axis: int = -1,
    epsilon: float = 0.0,
) -> Tensor:
    """Fuse a root mean square normalisation into SimplifiedLayerNormalization, or RMSNormalization from opset 23.

    What: x / √(mean(x²) + ε) · scale over the last axes, in the dtype of x or in a wider one, with the scale before or
    after a cast back, as Llama and T5 have it; 1 + weight, as Gemma has it, is a scale too.  Without one it gets ones.
    Numerics: rounding only; half precision is computed in float32.
    """
    first, factor = _first_and_scale(x, scale, axes, axis)
    return g.simplified_layer_normalization(for_epsilon(g, x, epsilon), factor, axis=first, epsilon=epsilon)


@rms_norm.on("onnx", opset=23, patterns=[standard])
def _(
    g: Graph,
    x: Tensor,
    scale: Tensor | None = None,
    axes: list[int] | None = None,
    axis: int = -1,
    epsilon: float = 0.0,
) -> Tensor:
    first, factor = _first_and_scale(x, scale, axes, axis)
    return g.rms_normalization(for_epsilon(g, x, epsilon), factor, axis=first, epsilon=epsilon)


@rms_norm.on("decomposed")
def _(g: Graph, x: Tensor, scale: Tensor, axis: int, epsilon: float) -> Tensor:
    require(x.dtype is not None, "the dtype of the input is unknown")
    return written_out(g, x, scale, from_axis(x, axis, scale), epsilon)


def written_out(g: Graph, x: Tensor, scale: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """The normalisation from primitives; of half precision in float32, and scaled in the dtype of x."""
    wide = widened(g, x)
    normal = g.over_root(wide, g.add(g.mean_of_squares(wide, axes), epsilon))
    return g.mul(g.cast(normal, to=x.dtype) if wide is not x else normal, scale)
