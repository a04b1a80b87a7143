"""Layer normalisation over the channels of an image (Liu et al., ConvNeXt, arXiv:2201.03545)."""

from surgeon import Graph, Tensor, require, rule
from .._common.axes import has_explicit_axes, negative_axes
from ._channels_last import with_channels_last
from .layer_norm import LayerNorm, scaled, scaled_and_shifted


@rule(patterns=[scaled_and_shifted, scaled], conditions=[has_explicit_axes], target={"onnx": 17, "ort": 1})
def layer_norm_channels_first(g: Graph, m: LayerNorm) -> Tensor:
    """Fuse a layer normalisation over the channels into Transpose, LayerNormalization and Transpose.

    What: (x − mean) / √(variance + ε) · scale + bias over axis 1.  Scale and bias have the shape [C, 1, …].  The bias
    is optional.
    Numerics: rounding only.  Half precision is computed in float32.
    """
    require(
        m.x.rank is not None and negative_axes(m.x, m.axes) == [1 - m.x.rank],
        "the normalisation must be over only the channels",
    )
    factors = (m.scale,) if m.bias is None else (m.scale, m.bias)
    return with_channels_last(g, g.layer_normalization, m.x, factors=factors, epsilon=m.epsilon)
