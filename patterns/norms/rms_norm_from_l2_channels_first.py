"""RMS normalisation written with lengths, over the channels of an image, as in diffusion models."""

from typing import Any

from surgeon import Graph, Tensor, require, rule
from .._common.axes import has_explicit_axes, negative_axes
from ._channels_last import with_channels_last
from .rms_norm_from_l2 import DIFFERS, L2RmsNorm, plain, scale_and_epsilon, scaled, times


@rule(patterns=[scaled, plain], conditions=[has_explicit_axes], differs=DIFFERS)
def rms_norm_from_l2_channels_first(g: Graph, m: L2RmsNorm) -> Tensor:
    """Fuse x / max(‖x‖, floor) · √C · scale over the channels into Transpose, SimplifiedLayerNormalization, Transpose.

    What: as `rms_norm_from_l2`, over axis 1, with a scale of shape [C, 1, …].
    Numerics: as `rms_norm_from_l2`.
    """
    require(
        m.x.rank is not None and negative_axes(m.x, m.axes) == [1 - m.x.rank],
        "the normalisation must be over only the channels",
    )
    count = m.x.shape[1]
    require(isinstance(count, int), "the number of channels is not fixed")
    factor, epsilon = scale_and_epsilon(m, count)

    def write(x: Tensor, scale: Any = None, **settings: Any) -> Any:
        return g.simplified_layer_normalization(x, times(g, m, scale, factor=factor, sizes=(count,)), **settings)

    return with_channels_last(g, write, m.x, factors=() if m.scale is None else (m.scale,), epsilon=epsilon)
