"""Layer normalisation over the channels of a picture (Liu et al., ConvNeXt, arXiv:2201.03545)."""

from surgeon import Graph, Tensor, require, rule
from ._axes import Array
from ._numbers import for_epsilon
from .layer_norm import Layer, normalised


def over_channels(g: Graph, m: Layer) -> Tensor:
    """(x − mean) / √(variance + ε) · scale + bias over axis 1."""
    return g.add(g.mul(g.maybe_narrower(normalised(g, m, [1])), m.scale), m.bias)


@rule(patterns=[over_channels], target={"onnx": 17, "ort": 1})
def layer_norm_channels_first(g: Graph, m: Layer) -> Tensor:
    """Fuse a layer normalisation over the channels into Transpose, LayerNormalization and Transpose.

    What: (x − mean) / √(variance + ε) · scale + bias over axis 1, with scale and bias of shape [C, 1, …].
    Numerics: rounding only; half precision is computed in float32.
    """
    x, scale, bias = m.x, m.scale, m.bias
    require(x.rank is not None and x.rank > 2, "the input must be known to have axes behind the channels")
    channels, rank = x.shape[1], x.rank
    require(isinstance(channels, int), "the number of channels is not fixed")
    for factor in (scale, bias):
        require(factor.dtype == x.dtype, "scale and bias must have the dtype of the input")
        fits = factor.shape in ((channels, *[1] * (rank - 2)), (1, channels, *[1] * (rank - 2)))
        require(fits, "scale and bias must run along the channels alone")
    last = g.transpose(for_epsilon(g, x, m.epsilon), perm=[0, *range(2, rank), 1])
    normal = g.layer_normalization(last, _vector(g, scale), _vector(g, bias), axis=-1, epsilon=m.epsilon)
    return g.transpose(normal, perm=[0, rank - 1, *range(1, rank - 1)])


def _vector(g: Graph, factor: Tensor) -> Tensor | Array:
    """A factor for each channel without its axes of size 1."""
    return factor.values.reshape(-1) if factor.is_constant else g.reshape(factor, [-1])
