"""Root mean square normalisation over the channels of a picture (MobileNetV5)."""

from surgeon import Graph, Tensor, require, rule
from ._axes import Array, over_named_axes
from ._numbers import for_epsilon
from .rms_norm import Rms, normalised


def over_channels(g: Graph, m: Rms) -> Tensor:
    """x / √(mean(x²) + ε) · scale over axis 1."""
    normal = normalised(g, m)
    return g.any_of(g.mul(g.maybe_narrower(normal), m.scale), normalised(g, m, m.scale))


@rule(patterns=[over_channels], conditions=[over_named_axes])
def rms_norm_channels_first(g: Graph, m: Rms) -> Tensor:
    """Fuse a root mean square normalisation over the channels into Transpose, SimplifiedLayerNormalization, Transpose.

    What: x / √(mean(x²) + ε) · scale over axis 1, with a scale of shape [C, 1, …].
    Numerics: rounding only; half precision is computed in float32.
    """
    x, rank = m.x, m.x.rank
    require(rank is not None and rank > 2, "the input must be known to have axes behind the channels")
    require([axis % rank for axis in m.axes] == [1], "it is not over the channels alone")
    channels = x.shape[1]
    require(isinstance(channels, int), "the number of channels is not fixed")
    require(m.scale.dtype == x.dtype, "the scale must have the dtype of the input")
    fits = m.scale.shape in ((channels, *[1] * (rank - 2)), (1, channels, *[1] * (rank - 2)))
    require(fits, "the scale must run along the channels alone")
    factor: Tensor | Array = m.scale.values.reshape(-1) if m.scale.is_constant else g.reshape(m.scale, [-1])
    last = g.transpose(for_epsilon(g, x, m.epsilon), perm=[0, *range(2, rank), 1])
    normal = g.simplified_layer_normalization(last, factor, axis=-1, epsilon=m.epsilon)
    return g.transpose(normal, perm=[0, rank - 1, *range(1, rank - 1)])
