"""Quantisation with zero points, or in uint8, by arithmetic: TensorRT supports only int8 with zero point 0."""

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

MIDDLE = 128  # uint8 with this zero point equals int8 with zero point 0
EIGHT_BITS = ("int8", "uint8")


class QuantizeLinear(Captures):
    """The input of a quantisation or dequantisation, the scale, the zero point and their axis."""

    x: Tensor
    scale: Tensor
    zero: Tensor | Any = None
    axis: int = 1
    attributes: dict[str, Any]

    def shape(self) -> list[int]:
        """Return the shape in which scales and zero points broadcast."""
        require(not self.attributes.get("block_size"), "it is quantised in blocks")
        require(self.scale.rank is not None, "the shape of the scale is unknown")
        of_one = self.zero is not None and is_single_value(self.zero) and is_single_value(self.scale)
        require(
            self.zero is None or of_one or self.zero.shape == self.scale.shape,
            "the zero point must have the shape of the scale",
        )
        if self.scale.rank == 0 or self.scale.shape == (1,):
            return [-1]
        require(self.scale.rank == 1, "it is quantised in blocks")
        require(self.x.rank is not None, "the rank of the input is unknown")
        return [-1] + [1] * (self.x.rank - 1 - self.axis % self.x.rank)

    def require_floats(self) -> None:
        """Refuse other float dtypes, which are quantised with another rounding."""
        require(self.scale.dtype == np.float32, "the scale must be float32")
        require(
            not self.attributes.get("output_dtype") and not self.attributes.get("precision"),
            "it has output_dtype or precision",
        )


def is_uint8_128(zero: Tensor | None) -> bool:
    """Return whether a zero point is 128 in uint8."""
    return zero is not None and zero.dtype == np.uint8 and zero.is_constant and bool((zero.values == MIDDLE).all())


def is_symmetric_int8(zero: Tensor | None) -> bool:
    """Return whether a zero point is 0 in int8, as TensorRT requires."""
    return zero is not None and zero.dtype == np.int8 and zero.is_constant and not zero.values.any()


def quantize(g: Graph, m: QuantizeLinear) -> Tensor:
    """QuantizeLinear."""
    return g.quantize_linear(m.x, m.scale, m.zero, axis=m.axis, **m.attributes)


def both(g: Graph, x: Tensor, scale: Tensor, zero: Tensor, **attributes: Any) -> Tensor:
    """A tensor that is quantised and dequantised with the same scale and zero point."""
    return g.dequantize_linear(g.shared(g.quantize_linear(x, scale, zero, **attributes)), scale, zero, **attributes)


@rule(patterns=[both], target="tensorrt", dtypes="float32")
def uint8_qdq_to_int8(g: Graph, x: Tensor, scale: Tensor, zero: Tensor, **attributes: Any) -> Tensor:
    """Quantise to int8 with zero point 0 instead of uint8 with zero point 128.

    What: QuantizeLinear and a DequantizeLinear of its result, with the zero point 128 in uint8, which TensorRT refuses.
    Numerics: none.  Both have the same number of steps on each side.
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
    require(m.zero is not None, "it has no zero point, which would give its dtype")
    require(not is_symmetric_int8(m.zero), "TensorRT supports quantisation to int8 with zero point 0")
    m.require_floats()
    require(m.x.dtype == np.float32, "the input must be float32")
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

    What: (x − zero) · scale of int8 with a zero point, uint8 or int32.  A constant stays quantised if it fits int8
    without the zero point.  A single number does not, because TensorRT would reshape it before it dequantises.
    Numerics: none.
    """
    require(str(m.x.dtype) in (*EIGHT_BITS, "int32"), f"expected int8, uint8 or int32, found {m.x.dtype}")
    has_none = m.zero is None or (m.zero.is_constant and not m.zero.values.any())
    require(has_none or m.x.dtype != np.int32, "an int32 input must not have a zero point")
    is_plain = m.x.dtype == np.int8 and has_none and not (m.x.rank == 0 and m.x.is_constant)
    require(not is_plain, "TensorRT supports dequantisation of int8 with zero point 0")
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
