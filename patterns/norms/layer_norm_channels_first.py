"""Layer normalisation over the channels of a picture (Liu et al., ConvNeXt, arXiv:2201.03545)."""

from surgeon import Graph, Tensor, require, rule
from .._common.axes import from_end, over_named_axes
from ._channels_last import with_channels_last
from .layer_norm import Layer, scaled, scaled_and_shifted


@rule(patterns=[scaled_and_shifted, scaled], conditions=[over_named_axes], target={"onnx": 17, "ort": 1})
def layer_norm_channels_first(g: Graph, m: Layer) -> Tensor:
    """Fuse a layer normalisation over the channels into Transpose, LayerNormalization and Transpose.

    What: (x − mean) / √(variance + ε) · scale + bias over axis 1, with scale and bias of shape [C, 1, …], or a
    scale alone.
    Numerics: rounding only; half precision is computed in float32.
    """
    require(m.x.rank is not None and from_end(m.x, m.axes) == [1 - m.x.rank], "it is not over the channels alone")
    factors = (m.scale,) if m.bias is None else (m.scale, m.bias)
    return with_channels_last(g, g.layer_normalization, m.x, factors, m.epsilon)
