"""Layer normalisation over the channels of a picture (Liu et al., ConvNeXt, arXiv:2201.03545)."""

from surgeon import Graph, Tensor, rule
from ._channels_last import with_channels_last
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
    return with_channels_last(g, g.layer_normalization, m.x, (m.scale, m.bias), m.epsilon)
