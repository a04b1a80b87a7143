"""A number for each channel, multiplied with or added to a convolution, folded into its weights and bias."""

from typing import Any

import numpy as np

from surgeon import Constant, Graph, Tensor, rule
from ._channel_weights import (
    WeightedOp,
    conv,
    folded_bias,
    matched_conv,
    output_channels,
    over_channels,
    with_scaled_channels,
)


class ScaledConv(WeightedOp):
    """A convolution, transposed or not, and the constant after it."""

    factor: Constant | None = None
    divisor: Constant | None = None
    shift: Constant | None = None
    less: Constant | None = None


def multiplied(g: Graph, m: ScaledConv) -> Tensor:
    """conv(x) · factor, or conv(x) / divisor."""
    return g.any_of(g.mul(conv(g, m), m.factor), g.div(conv(g, m), m.divisor))


def shifted(g: Graph, m: ScaledConv) -> Tensor:
    """conv(x) + shift, or conv(x) − less."""
    return g.any_of(g.add(conv(g, m), m.shift), g.sub(conv(g, m), m.less))


@rule(patterns=[multiplied, shifted], target="onnx")
def conv_scale(g: Graph, m: ScaledConv) -> Tensor:
    """Fold a constant after a convolution into its weights and bias.

    What: conv(x) · c, conv(x) / c, conv(x) + c and conv(x) − c. c is one number or one for each channel.  A sum leaves
    the weights unchanged.
    Numerics: rounding only.  Products are computed in float64 and rounded once to the dtype of the weights.
    """
    op, group, rank = matched_conv(m.match), m.attributes.get("group", 1), m.w.rank
    channels = output_channels(op, m.w, group)
    one, two = (over_channels(item, rank, channels, 1.0) for item in (m.factor, m.divisor))
    offset = over_channels(m.shift, rank, channels, 0.0) - over_channels(m.less, rank, channels, 0.0)
    with np.errstate(all="ignore"):
        ratio = one / two
    is_product = m.shift is None and m.less is None
    weights: Any = g.literal(with_scaled_channels(op, m.w, ratio, group)) if is_product else m.w
    bias = None if is_product and m.bias is None else g.literal(folded_bias(m.bias, ratio, offset, m.w.dtype))
    made: Tensor = g.op(op, m.x, weights, bias, **m.attributes)
    return made
