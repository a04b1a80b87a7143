"""Quantisation of a tensor by its own range, in float arithmetic."""

import numpy as np

from surgeon import Graph, Tensor, rule
from ._scale_zero_point import NAN_CAST_DIFFERS

STEPS = 255.0


def quantized(g: Graph, x: Tensor) -> tuple[Tensor, ...]:
    """x in uint8, its scale and its zero point."""
    return g.dynamic_quantize_linear(x)


@rule(patterns=[quantized], target="any", lacking=True, differs=NAN_CAST_DIFFERS)
def dynamic_quantize_linear(g: Graph, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Write a DynamicQuantizeLinear as arithmetic on the minimum and the maximum.

    What: the scale is (max − min) / 255, with 0 included in the range, or 1 if all numbers are 0.  The zero point is
    round(−min / scale), and x becomes round(x / scale) + zero point, clipped, in uint8.
    Numerics: none.
    """
    none = np.array(0, np.float32)
    least, largest = g.min(g.reduce_min(x, keepdims=0), none), g.max(g.reduce_max(x, keepdims=0), none)
    width = g.sub(largest, least)
    scale = g.where(g.equal(width, none), np.array(1, np.float32), g.div(width, np.array(STEPS, np.float32)))
    ends = np.array(0, np.float32), np.array(STEPS, np.float32)
    zero = g.clip(g.round(g.clip(g.div(g.neg(least), scale), *ends)), *ends)
    whole = g.clip(g.add(g.round(g.div(x, scale)), zero), *ends)
    return g.cast(whole, to="uint8"), scale, g.cast(zero, to="uint8")
