"""A number for each channel, multiplied with or added to what a convolution makes, as part of its weights and bias."""

from typing import Any

import numpy as np

from surgeon import Constant, Graph, Match, Tensor, rule
from ._channels import channels_of, convolution, new_bias, over_channels, scaled_weights


def conv(g: Graph, x: Tensor, w: Constant, bias: Constant | None, attributes: dict[str, Any]) -> Tensor:
    """A convolution, transposed or not."""
    return g.any_of(g.conv(x, w, bias, **attributes), g.conv_transpose(x, w, bias, **attributes))


def multiplied(
    g: Graph, x: Tensor, w: Constant, factor: Constant, bias: Constant | None = None, **attributes: Any
) -> Tensor:
    """conv(x) · factor."""
    return g.mul(conv(g, x, w, bias, attributes), factor)


def divided(
    g: Graph, x: Tensor, w: Constant, divisor: Constant, bias: Constant | None = None, **attributes: Any
) -> Tensor:
    """conv(x) / divisor."""
    return g.div(conv(g, x, w, bias, attributes), divisor)


def shifted(
    g: Graph, x: Tensor, w: Constant, shift: Constant, bias: Constant | None = None, **attributes: Any
) -> Tensor:
    """conv(x) + shift."""
    return g.add(conv(g, x, w, bias, attributes), shift)


def lowered(
    g: Graph, x: Tensor, w: Constant, less: Constant, bias: Constant | None = None, **attributes: Any
) -> Tensor:
    """conv(x) − less."""
    return g.sub(conv(g, x, w, bias, attributes), less)


@rule(patterns=[multiplied, divided, shifted, lowered], target="onnx")
def conv_scale(
    g: Graph,
    match: Match,
    x: Tensor,
    w: Constant,
    bias: Constant | None = None,
    factor: Constant | None = None,
    divisor: Constant | None = None,
    shift: Constant | None = None,
    less: Constant | None = None,
    **attributes: Any,
) -> Tensor:
    """Fold a constant behind a convolution into its weights and bias.

    What: conv(x) · c, conv(x) / c, conv(x) + c and conv(x) − c, where c is one number or one for each channel; a sum
    leaves the weights as they are.
    Numerics: rounding only; products are computed in double precision and rounded once to the weights' dtype.
    """
    op, group, rank = convolution(match), attributes.get("group", 1), w.rank
    channels = channels_of(op, w, group)
    one, two = (over_channels(item, rank, channels, 1.0) for item in (factor, divisor))
    offset = over_channels(shift, rank, channels, 0.0) - over_channels(less, rank, channels, 0.0)
    with np.errstate(all="ignore"):
        ratio = one / two
    is_product = shift is None and less is None
    weights: Tensor = g.literal(scaled_weights(op, w, ratio, group)) if is_product else w
    bias_left = is_product and bias is None
    made: Tensor = g.op(
        op, x, weights, None if bias_left else g.literal(new_bias(bias, ratio, offset, w.dtype)), **attributes
    )
    return made
