"""Tensors that are dequantised and quantised again with the same scale and zero point."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule, searches
from ._scale_zero_point import NAN_CAST_DIFFERS

WHOLE = (
    "int4",
    "uint4",
    "int8",
    "uint8",
    "int16",
    "uint16",
)  # their number of steps is small compared with the digits of float32


class Kept(Captures):
    """The input of a quantisation, its scale and its zero point."""

    x: Tensor
    scale: Tensor
    zero: Tensor | Any = None
    attributes: dict[str, Any]


def again(g: Graph, x: Tensor, scale: Tensor, zero: Tensor | None = None, **attributes: Any) -> Tensor:
    """Numbers of a few bits, dequantised and quantised with the same scale and zero point."""
    return g.quantize_linear(g.dequantize_linear(x, scale, zero, **attributes), scale, zero, **attributes)


def require_steps(dtype: Any, scale: Tensor, zero: Any) -> None:
    """Refuse steps that float32 does not distinguish. dtype: the dtype of the integers."""
    require(str(dtype) in WHOLE, f"only integers of up to 16 bits are supported, but the dtype is {dtype}")
    made = np.dtype(np.uint8) if zero is None else zero.dtype
    require(made == dtype, f"{dtype} would become {made}")
    require(scale.is_constant and scale.dtype == np.float32, "the scale must be a float32 constant")
    require_digits(scale)


def require_digits(scale: Tensor) -> None:
    """Refuse scales that are so small or so large that products with them lose digits."""
    lowest = np.finfo(np.float32).tiny * 2**16
    require(
        bool(((scale.values > lowest) & (scale.values < 1 / lowest)).all()),
        "the scale is too small or too large for exact products",
    )


@rule(patterns=[again], target="any")
def redundant_dq_q(g: Graph, x: Tensor, scale: Tensor, zero: Any = None) -> Tensor:
    """Remove a DequantizeLinear and the QuantizeLinear after it, if they return the original integers.

    What: both have the same scale, zero point, axis and block, as between two layers that are quantised separately.
    Numerics: none.  A product with a scale, divided by the scale, is less than half a step away from the integer.
    """
    require_steps(x.dtype, scale, zero)
    return x


def rounded(g: Graph, m: Kept) -> Tensor:
    """A tensor that is quantised and dequantised."""
    quantized = g.quantize_linear(m.x, m.scale, m.zero, **m.attributes)
    return g.dequantize_linear(quantized, m.scale, m.zero, **m.attributes)


def behind_relu(g: Graph, m: Kept) -> Tensor:
    """A Relu between two pairs with the same scale."""
    return g.quantize_linear(g.relu(rounded(g, m)), m.scale, m.zero, **m.attributes)


def behind_clip(g: Graph, m: Kept, low: float, high: float) -> Tensor:
    """A Clip between two pairs with the same scale."""
    limited = g.clip(rounded(g, m), low, high)
    return g.quantize_linear(limited, m.scale, m.zero, **m.attributes)


@rule(patterns=[behind_relu, behind_clip], target="tensorrt", differs=NAN_CAST_DIFFERS)
def qdq_around_relu(g: Graph, m: Kept, low: float | None = None, high: float | None = None) -> Tensor:
    """Quantise only after a Relu or Clip, and not before it too.

    What: QuantizeLinear and DequantizeLinear with the same scale and zero point on both sides.  Quantisers write this
    if they do not know that the runtime fuses the Relu with the layer before it.
    Numerics: none.  Rounding and limits commute.
    TensorRT: a convolution, its Relu and the QuantizeLinear after it become one kernel if they are adjacent.
    """
    require(low is None or high is None or low <= high, "the lower limit of the Clip is above the upper one")
    require_steps(np.dtype(np.uint8) if m.zero is None else m.zero.dtype, m.scale, m.zero)
    limited = g.relu(m.x) if low is None else g.clip(m.x, low, high)
    return g.quantize_linear(limited, m.scale, m.zero, **m.attributes)


@rule(search=searches.quantized_already, target="tensorrt", differs=NAN_CAST_DIFFERS)
def redundant_q_dq(g: Graph, x: Tensor, scale: Tensor) -> Tensor:
    """Remove a QuantizeLinear and DequantizeLinear of a tensor that comes from integers with the same scale.

    What: the output of a DequantizeLinear that was moved, joined, or reduced to the maximum of each window (Transpose,
    Reshape, Slice, Concat, MaxPool, Relu, ...).  Then the branch of a residual and the layer next to it read the same
    tensor.
    Numerics: none.
    TensorRT: it moves a DequantizeLinear after such ops itself, and computes these ops in int8.
    """
    require_digits(scale)
    return x
