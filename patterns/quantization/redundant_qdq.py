"""What is dequantised and quantised again as it was."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule, searches
from ._scale_zero_point import NAN_CAST_DIFFERS

WHOLE = ("int4", "uint4", "int8", "uint8", "int16", "uint16")  # few steps beside the digits of float32


class Kept(Captures):
    """What is quantised, and by what."""

    x: Tensor
    scale: Tensor
    zero: Tensor | Any = None
    attributes: dict[str, Any]


def again(g: Graph, x: Tensor, scale: Tensor, zero: Tensor | None = None, **attributes: Any) -> Tensor:
    """Numbers of a few bits, dequantised and quantised by the same scale and zero point."""
    return g.quantize_linear(g.dequantize_linear(x, scale, zero, **attributes), scale, zero, **attributes)


def require_steps(dtype: Any, scale: Tensor, zero: Any) -> None:
    """Refuse steps that float32 does not distinguish.  dtype: of the integers."""
    require(str(dtype) in WHOLE, f"it is for integers of up to 16 bits, and here is {dtype}")
    made = np.dtype(np.uint8) if zero is None else zero.dtype
    require(made == dtype, f"{dtype} comes back as {made}")
    require(scale.is_constant and scale.dtype == np.float32, "the scale is no constant in float32")
    require_digits(scale)


def require_digits(scale: Tensor) -> None:
    """Refuse scales so small or large that products with them lose digits."""
    lowest = np.finfo(np.float32).tiny * 2**16
    require(bool(((scale.values > lowest) & (scale.values < 1 / lowest)).all()), "the scale has few digits, or none")


@rule(patterns=[again], target="any")
def redundant_dq_q(g: Graph, x: Tensor, scale: Tensor, zero: Any = None) -> Tensor:
    """Take out a DequantizeLinear and a QuantizeLinear behind it that give back what there was.

    What: both of one scale, zero point, axis and block, as between two layers that were quantised each by itself.
    Numerics: none; a product with a scale is less than half a step away from the number divided by it again.
    """
    require_steps(x.dtype, scale, zero)
    return x


def rounded(g: Graph, m: Kept) -> Tensor:
    """What is quantised and dequantised."""
    quantized = g.quantize_linear(m.x, m.scale, m.zero, **m.attributes)
    return g.dequantize_linear(quantized, m.scale, m.zero, **m.attributes)


def behind_relu(g: Graph, m: Kept) -> Tensor:
    """A Relu between two pairs of one scale."""
    return g.quantize_linear(g.relu(rounded(g, m)), m.scale, m.zero, **m.attributes)


def behind_clip(g: Graph, m: Kept, low: float, high: float) -> Tensor:
    """A Clip between two pairs of one scale."""
    limited = g.clip(rounded(g, m), low, high)
    return g.quantize_linear(limited, m.scale, m.zero, **m.attributes)


@rule(patterns=[behind_relu, behind_clip], target="tensorrt", differs=NAN_CAST_DIFFERS)
def qdq_around_relu(g: Graph, m: Kept, low: float | None = None, high: float | None = None) -> Tensor:
    """Quantise behind a Relu or Clip alone, and not before it too.

    What: QuantizeLinear and DequantizeLinear of one scale and zero point on both sides, as quantisers leave it who do
    not know that the layer before and the Relu are one.
    Numerics: none; steps and limits cut in either order.
    TensorRT: a convolution, its Relu and the QuantizeLinear behind that are one kernel where nothing stands between.
    """
    require(low is None or high is None or low <= high, "the limits of the Clip cross")
    require_steps(np.dtype(np.uint8) if m.zero is None else m.zero.dtype, m.scale, m.zero)
    limited = g.relu(m.x) if low is None else g.clip(m.x, low, high)
    return g.quantize_linear(limited, m.scale, m.zero, **m.attributes)


@rule(search=searches.quantized_already, target="tensorrt", differs=NAN_CAST_DIFFERS)
def redundant_q_dq(g: Graph, x: Tensor, scale: Tensor) -> Tensor:
    """Take out a QuantizeLinear and DequantizeLinear of what came so from integers of the same scale.

    What: numbers out of a DequantizeLinear that were moved since, joined, or the largest of each window (Transpose,
    Reshape, Slice, Concat, MaxPool, Relu, ...), so that the branch of a residual and the layer beside it read the same.
    Numerics: none.
    TensorRT: it takes a DequantizeLinear behind such ops by itself, and computes these in int8.
    """
    require_digits(scale)
    return x
