"""A number for each channel before or after a convolution, multiplied or added, folded into its weights and bias."""

from typing import Any

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule
from ._channel_weights import (
    Array,
    WeightedOp,
    conv,
    conv_of_affine,
    folded_bias,
    matched_conv,
    output_channels,
    over_channels,
    pads_nothing,
    with_scaled_channels,
)


class ScaledConv(WeightedOp):
    """A convolution, transposed or not, and the constant before or after it."""

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


def multiplied_input(g: Graph, m: ScaledConv) -> Tensor:
    """conv(x · factor), or conv(x / divisor)."""
    return g.conv(g.any_of(g.mul(m.x, m.factor), g.div(m.x, m.divisor)), m.w, m.bias, **m.attributes)


def shifted_input(g: Graph, m: ScaledConv) -> Tensor:
    """conv(x + shift), or conv(x − less)."""
    return g.conv(g.any_of(g.add(m.x, m.shift), g.sub(m.x, m.less)), m.w, m.bias, **m.attributes)


def channel_numbers(m: ScaledConv, channels: int) -> tuple[Array, Array]:
    """Return the factor and the offset for each of these channels."""
    one, two = (over_channels(item, m.w.rank, channels, 1.0) for item in (m.factor, m.divisor))
    more, less = (over_channels(item, m.w.rank, channels, 0.0) for item in (m.shift, m.less))
    with np.errstate(all="ignore"):
        return one / two, more - less


@rule(patterns=[multiplied, shifted], target="onnx")
def conv_scale(g: Graph, m: ScaledConv) -> Tensor:
    """Fold a constant after a convolution into its weights and bias.

    What: conv(x) · c, conv(x) / c, conv(x) + c and conv(x) − c. c is one number or one for each channel.  A sum leaves
    the weights unchanged.
    Numerics: rounding only.  Products are computed in float64 and rounded once to the dtype of the weights.
    """
    op, group = matched_conv(m.match), m.attributes.get("group", 1)
    ratio, offset = channel_numbers(m, output_channels(op, m.w, group))
    is_product = m.shift is None and m.less is None
    weights: Any = g.literal(with_scaled_channels(op, m.w, ratio, group)) if is_product else m.w
    bias = None if is_product and m.bias is None else g.literal(folded_bias(m.bias, ratio, offset, m.w.dtype))
    made: Tensor = g.op(op, m.x, weights, bias, **m.attributes)
    return made


@rule(patterns=[multiplied_input, shifted_input], target="onnx")
def scale_before_conv(g: Graph, m: ScaledConv) -> Tensor:
    """Fold a constant before a convolution into its weights and bias.

    What: conv(x · c), conv(x / c), and, if the convolution does not pad, conv(x + c) and conv(x − c).  c is one number
    or one for each channel.
    Numerics: rounding only.  Products are computed in float64 and rounded once to the dtype of the weights.
    """
    channels = m.w.shape[1] * m.attributes.get("group", 1)
    factor, offset = channel_numbers(m, channels)
    require(m.x.rank == m.w.rank and m.x.shape[1] == channels, "the number of channels of x is unknown, or broadcast")
    if offset.any():
        pads_nothing(m)
    return conv_of_affine(g, m, factor, offset)
