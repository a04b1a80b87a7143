"""Pooling of quantised tensors, for targets without the ops of ONNX Runtime."""

from math import prod

import numpy as np

from surgeon import Graph, Tensor, require, rule
from ._exact_sums import MAX_EXACT_INTEGER
from ._matmul_params import is_single_value
from ._qlinear import QLinearUnary, qlinear_pattern
from ._scale_zero_point import minus_zero_point, round_and_saturate, to_float32


def require_channels_first(m: QLinearUnary) -> None:
    """Refuse inputs whose channels are the last axis."""
    require(not m.attributes.pop("channels_last", 0), "its channels are the last axis")


@rule(patterns=[qlinear_pattern("ms_qlinear_average_pool")], target="any", lacking=True)
def qlinear_average_pool(g: Graph, m: QLinearUnary) -> Tensor:
    """Write a QLinearAveragePool as DequantizeLinear, AveragePool and QuantizeLinear.

    What: ONNX Runtime computes these three ops.  The rule does not match if the channels are the last axis.
    Numerics: rounding only.
    """
    require_channels_first(m)
    return m.between(g, g.average_pool, **m.attributes)


@rule(patterns=[qlinear_pattern("ms_qlinear_global_average_pool")], target="any", lacking=True)
def qlinear_global_average_pool(g: Graph, m: QLinearUnary) -> Tensor:
    """Write a QLinearGlobalAveragePool as a sum of floats that are integers, scaled and rounded.

    What: round(Σ (x − x_zero) · x_scale / (y_scale · count)) + y_zero over all axes but the first two.
    Numerics: none.  The sums are integers, and the scale is the same as in ONNX Runtime.
    """
    require_channels_first(m)
    sizes = m.x.shape[2:] if m.x.rank is not None else []
    require(bool(sizes) and all(isinstance(size, int) for size in sizes), "the number of summed elements is not fixed")
    require(prod(sizes) * 255 <= MAX_EXACT_INTEGER, "the sums are too long to be exact")
    for scale in (m.x_scale, m.y_scale):
        is_told = scale.is_constant and is_single_value(scale) and scale.dtype == np.float32
        require(is_told, "a scale must be a constant with one float32 number")
    count = np.float32(prod(sizes))
    factor = m.x_scale.values.reshape(-1)[0] / np.float32(m.y_scale.values.reshape(-1)[0] * count)
    total = g.reduce_sum(minus_zero_point(g, m.x, m.x_zero, [-1]), list(range(2, len(sizes) + 2)), keepdims=1)
    return round_and_saturate(g, g.mul(total, factor), None if m.y_zero is None else to_float32(g, m.y_zero), m.x)
