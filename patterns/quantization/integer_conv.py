"""Convolutions of integers, computed in floats, for targets that support only convolutions of floats."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule
from ._exact_sums import MAX_EXACT_INTEGER, PartialSums, as_float, as_int32, max_magnitude, partial_sums, split_points
from ._scale_zero_point import (
    broadcast_parameter,
    combined_scale,
    constant_minus_zero_point,
    minus_zero_point,
    round_and_saturate,
    to_float32,
)


class Windows(Captures):
    """The inputs of a convolution: an input and the weights, with the zero point of each, and the attributes."""

    x: Tensor
    w: Tensor
    x_zero: Tensor | None = None
    w_zero: Tensor | None = None
    attributes: dict[str, Any]


class QLinearConv(Windows):
    """The same with the scales of the inputs and of the result, and a bias."""

    x_scale: Tensor
    w_scale: Tensor
    y_scale: Tensor
    y_zero: Tensor
    bias: Tensor | None = None


def convolved(g: Graph, m: Any, more: int = 0) -> PartialSums:
    """Return the convolution of x − x_zero with w − w_zero as floats, divided into parts that are exact.

    more: the maximum magnitude of a number that is added to each sum.
    """
    is_fixed = m.w.rank is not None and all(isinstance(size, int) for size in m.w.shape)
    require(is_fixed, "the weights have a dynamic size")
    require(m.w.rank > 2, "the weights must have an axis besides the channels")
    channels = m.w.shape[1]
    shape = [-1] + [1] * (m.w.rank - 1)
    bounds = np.full((channels, 1), max_magnitude(m.w, m.w_zero) * int(np.prod(m.w.shape[2:])))
    if m.w.is_constant and (m.w_zero is None or m.w_zero.is_constant):
        whole = abs(constant_minus_zero_point(m.w, m.w_zero, shape)).reshape(m.w.shape[0], channels, -1)
        bounds = whole.sum(axis=2).T
    places = split_points(bounds, max_magnitude(m.x, m.x_zero), more)
    is_one = len(places) <= 2
    require(is_one or m.attributes.get("group", 1) == 1, "the sums of a group are too long to be exact in float32")
    x, w = minus_zero_point(g, m.x, m.x_zero, [-1]), minus_zero_point(g, m.w, m.w_zero, shape)

    def part(start: int, stop: int) -> Tensor:
        parts = [x, w] if is_one else [g.slice(one, [start], [stop], [1]) for one in (x, w)]
        return g.conv(*parts, **m.attributes)

    return partial_sums(g, places, part)


def windows(g: Graph, m: Windows) -> Tensor:
    """ConvInteger with an int32 output."""
    return g.conv_integer(m.x, m.w, m.x_zero, m.w_zero, **m.attributes)


def windows_as_float(g: Graph, m: Windows) -> Tensor:
    """The same as float32."""
    return g.cast(windows(g, m), to=1)


@rule(patterns=[windows_as_float], target="any", lacking=True)
def cast_conv_integer(g: Graph, m: Windows) -> Tensor:
    """Write a ConvInteger that is cast to float32 as a Conv of floats.

    What: the convolution of x − x_zero with w − w_zero, if the target does not support convolutions of integers.  Sums
    that may exceed the exact integers of float32 are divided into parts, which are added as int32.
    Numerics: none.  Every product and every sum is an integer below 2²⁴.
    """
    return as_float(g, convolved(g, m))


@rule(patterns=[windows], target="any", lacking=True)
def conv_integer(g: Graph, m: Windows) -> Tensor:
    """Write a ConvInteger as a Conv of floats that is cast to int32.

    What: the convolution of x − x_zero with w − w_zero, if the target does not support convolutions of integers.  Sums
    that may exceed the exact integers of float32 are divided into parts, which are added as int32.
    Numerics: none.  Every product and every sum is an integer below 2²⁴.
    """
    return as_int32(g, convolved(g, m))


def scaled(g: Graph, m: QLinearConv) -> Tensor:
    """QLinearConv."""
    given: Any = (m.x, m.x_scale, m.x_zero, m.w, m.w_scale, m.w_zero, m.y_scale, m.y_zero, m.bias)
    return g.qlinear_conv(*given, **m.attributes)


@rule(patterns=[scaled], target="any", lacking=True)
def qlinear_conv(g: Graph, m: QLinearConv) -> Tensor:
    """Write a QLinearConv as a Conv of floats that is scaled, rounded and clipped.

    What: round(((x − x_zero) ∗ (w − w_zero) + bias) · x_scale · w_scale / y_scale) + y_zero, if the target does not
    support convolutions of integers.
    Numerics: none.  The sums are integers, and the scales are multiplied as in ONNX Runtime.
    """
    require(m.bias is None or m.bias.is_constant, "the bias must be constant")
    bias = None if m.bias is None else m.bias.values.reshape([-1] + [1] * (m.w.rank - 2))
    most = 0 if bias is None else int(abs(bias.astype(np.int64)).max(initial=0))
    is_small = most < MAX_EXACT_INTEGER // 2
    parts = convolved(g, m, most if is_small else 0)
    if bias is None:
        made = as_float(g, parts)
    elif is_small and parts[1]:
        made = g.add(as_float(g, parts), bias.astype(np.float32))
    else:
        made = g.cast(g.add(as_int32(g, parts), bias), to=1)
    scale = combined_scale(g, m.x_scale, m.w_scale, y=m.y_scale, shape=[-1] + [1] * (m.w.rank - 2))
    zero = broadcast_parameter(g, to_float32(g, m.y_zero), m.y_zero, [-1])
    return round_and_saturate(g, g.mul(made, scale), zero, m.y_zero)
