"""Quantisation with zero points, or in uint8, in arithmetic: TensorRT quantises only to int8 around 0."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule
from ._matmul_params import is_single_value
from ._scale_zero_point import (
    NAN_CAST_DIFFERS,
    broadcast_parameter,
    constant_minus_zero_point,
    minus_zero_point,
    round_and_saturate,
    to_float32,
)

MIDDLE = 128  # uint8 around this is int8 around 0
EIGHT_BITS = ("int8", "uint8")


class QuantizeLinear(Captures):
    """What is quantised or was, the scale and the zero point, and along which axis they go."""

    x: Tensor
    scale: Tensor
    zero: Tensor | Any = None
    axis: int = 1
    attributes: dict[str, Any]

    def shape(self) -> list[int]:
        """That in which scales and zero points are repeated."""
        require(not self.attributes.get("block_size"), "it is quantised in blocks")
        require(self.scale.rank is not None, "the shape of the scale is unknown")
        of_one = self.zero is not None and is_single_value(self.zero) and is_single_value(self.scale)
        require(self.zero is None or of_one or self.zero.shape == self.scale.shape, "the zero point has another shape")
        if self.scale.rank == 0 or self.scale.shape == (1,):
            return [-1]
        require(self.scale.rank == 1, "it is quantised in blocks")
        require(self.x.rank is not None, "the rank of what is quantised is unknown")
        return [-1] + [1] * (self.x.rank - 1 - self.axis % self.x.rank)

    def require_floats(self) -> None:
        """Refuse other floats: they are quantised with another rounding."""
        require(self.scale.dtype == np.float32, "the scale is not float32")
        require(not self.attributes.get("output_dtype") and not self.attributes.get("precision"), "it names a dtype")


def is_uint8_128(zero: Tensor | None) -> bool:
    """Whether a zero point is 128 in uint8."""
    return zero is not None and zero.dtype == np.uint8 and zero.is_constant and bool((zero.values == MIDDLE).all())


def is_symmetric_int8(zero: Tensor | None) -> bool:
    """Whether a zero point is one of int8 that TensorRT takes."""
    return zero is not None and zero.dtype == np.int8 and zero.is_constant and not zero.values.any()


def quantize(g: Graph, m: QuantizeLinear) -> Tensor:
    """QuantizeLinear."""
    return g.quantize_linear(m.x, m.scale, m.zero, axis=m.axis, **m.attributes)


def both(g: Graph, x: Tensor, scale: Tensor, zero: Tensor, **attributes: Any) -> Tensor:
    """A tensor that is quantised and dequantised alike."""
    return g.dequantize_linear(g.shared(g.quantize_linear(x, scale, zero, **attributes)), scale, zero, **attributes)


@rule(patterns=[both], target="tensorrt", dtypes="float32")
def uint8_qdq_to_int8(g: Graph, x: Tensor, scale: Tensor, zero: Tensor, **attributes: Any) -> Tensor:
    """Quantise to int8 around 0 in place of uint8 around 128.

    What: QuantizeLinear and a DequantizeLinear of its result, with the zero point 128 in uint8, which TensorRT refuses.
    Numerics: none; both have as many steps on each side.
    """
    require(is_uint8_128(zero), "the zero point is not 128")
    values = np.zeros(zero.values.shape, np.int8)
    return g.dequantize_linear(g.quantize_linear(x, scale, values, **attributes), scale, values, **attributes)


@rule(patterns=[quantize], target="tensorrt", differs=NAN_CAST_DIFFERS)
def quantize_linear(g: Graph, m: QuantizeLinear) -> Tensor:
    """Write a QuantizeLinear that TensorRT refuses as a division, Round, Clip and Cast.

    What: round(x / scale) + zero in uint8, or in int8 with a zero point.
    Numerics: none.
    """
    require(m.zero is not None, "it has no zero point, and so no dtype that is told")
    require(not is_symmetric_int8(m.zero), "TensorRT quantises to int8 around 0 itself")
    m.require_floats()
    require(m.x.dtype == np.float32, "what is quantised is not float32")
    shape = m.shape()
    steps = g.div(
        m.x, broadcast_parameter(g, g.literal(m.scale.values) if m.scale.is_constant else m.scale, m.scale, shape)
    )
    return round_and_saturate(g, steps, broadcast_parameter(g, to_float32(g, m.zero), m.zero, shape), m.zero)


def dequantize(g: Graph, m: QuantizeLinear) -> Tensor:
    """DequantizeLinear."""
    return g.dequantize_linear(m.x, m.scale, m.zero, axis=m.axis, **m.attributes)


@rule(patterns=[dequantize], target="tensorrt")
def dequantize_linear(g: Graph, m: QuantizeLinear) -> Tensor:
    """Write a DequantizeLinear that TensorRT refuses as a product.

    What: (x − zero) · scale of int8 with a zero point, uint8 or int32.  A constant that fits int8 once the zero point
    is taken off stays quantised, but for a single number, which TensorRT would reshape before it dequantises.
    Numerics: none.
    """
    require(str(m.x.dtype) in (*EIGHT_BITS, "int32"), f"it is for int8, uint8 and int32 alone, and here is {m.x.dtype}")
    has_none = m.zero is None or (m.zero.is_constant and not m.zero.values.any())
    require(has_none or m.x.dtype != np.int32, "int32 has no zero point")
    is_plain = m.x.dtype == np.int8 and has_none and not (m.x.rank == 0 and m.x.is_constant)
    require(not is_plain, "TensorRT dequantises int8 around 0 itself")
    m.require_floats()
    shape = m.shape()
    if m.x.is_constant and (m.zero is None or m.zero.is_constant):
        whole = constant_minus_zero_point(m.x, m.zero, shape)
        if m.x.rank and abs(whole.astype(np.int64)).max(initial=0) < MIDDLE:
            return g.dequantize_linear(whole.astype(np.int8), m.scale, axis=m.axis)
        made = g.literal(whole.astype(np.float32))
    else:
        made = minus_zero_point(g, m.x, m.zero, shape)
    return g.mul(
        made, broadcast_parameter(g, g.literal(m.scale.values) if m.scale.is_constant else m.scale, m.scale, shape)
    )
