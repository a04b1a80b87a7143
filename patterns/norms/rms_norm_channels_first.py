"""Root mean square normalisation over the channels of an image (MobileNetV5)."""

from surgeon import Graph, Tensor, require, rule
from .._common.axes import has_explicit_axes, negative_axes
from ._channels_last import with_channels_last
from .rms_norm import RmsNorm, scaled


@rule(patterns=[scaled], conditions=[has_explicit_axes])
def rms_norm_channels_first(g: Graph, m: RmsNorm) -> Tensor:
    """Fuse a root mean square normalisation over the channels into Transpose, SimplifiedLayerNormalization, Transpose.

    What: x / √(mean(x²) + ε) · scale over axis 1.  The scale has the shape [C, 1, …].  Without a scale the rule does
    not match, because two Transposes cost more than the fused node saves.
    Numerics: rounding only.  Half precision is computed in float32.
    """
    require(
        m.x.rank is None or negative_axes(m.x, m.axes) == [1 - m.x.rank],
        "the normalisation must be over only the channels",
    )
    return with_channels_last(g, g.simplified_layer_normalization, m.x, factors=(m.scale,), epsilon=m.epsilon)
