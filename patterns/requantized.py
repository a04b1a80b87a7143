"""What is dequantised and quantised again as it was."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule

WHOLE = ("int4", "uint4", "int8", "uint8", "int16", "uint16")  # few steps beside the digits of float32


def again(g: Graph, x: Tensor, scale: Tensor, zero: Tensor | None = None, **attributes: Any) -> Tensor:
    """Numbers of a few bits, dequantised and quantised by the same scale and zero point."""
    return g.quantize_linear(g.dequantize_linear(x, scale, zero, **attributes), scale, zero, **attributes)


@rule(patterns=[again], target="any")
def requantized(g: Graph, x: Tensor, scale: Tensor, zero: Any = None) -> Tensor:
    """Take out a DequantizeLinear and a QuantizeLinear behind it that give back what there was.

    What: both of one scale, zero point, axis and block, as between two layers that were quantised each by itself.
    Numerics: none; a product with a scale is less than half a step away from the number divided by it again.
    """
    require(str(x.dtype) in WHOLE, f"it is for integers of up to 16 bits, and here is {x.dtype}")
    made = np.dtype(np.uint8) if zero is None else zero.dtype
    require(made == x.dtype, f"{x.dtype} comes back as {made}")
    require(scale.is_constant and scale.dtype == np.float32, "the scale is no constant in float32")
    lowest = np.finfo(np.float32).tiny * 2**16
    require(bool(((scale.values > lowest) & (scale.values < 1 / lowest)).all()), "the scale has few digits, or none")
    return x
