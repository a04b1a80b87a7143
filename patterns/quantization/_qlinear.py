"""Quantised tensors, what ONNX Runtime computes of one or two of them, and float32 as processors compute with it."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require
from ._matmul_params import is_single_value
from ._scale_zero_point import dtype_range
from .quantize_linear import is_symmetric_int8

ULP_STEPS = sorted(range(-4, 5), key=abs)  # by how many steps of float32 a constant is moved, the least first
Numbers = Any
"""An array of float32."""


class QLinearUnary(Captures):
    """A quantised tensor and a result, each with its scale and its zero point."""

    x: Tensor
    x_scale: Tensor
    x_zero: Tensor | Any = None
    y_scale: Tensor
    y_zero: Tensor | Any = None
    attributes: dict[str, Any]

    def between(self, g: Graph, function: Callable[..., Tensor], **attributes: Any) -> Tensor:
        """A function of the floats that x stands for, quantised."""
        floats = g.dequantize_linear(self.x, self.x_scale, self.x_zero)
        return g.quantize_linear(function(floats, **attributes), self.y_scale, self.y_zero)


def qlinear_pattern(name: str) -> Callable[[Graph, QLinearUnary], Tensor]:
    """The pattern of a function of ONNX Runtime's."""

    def pattern(g: Graph, m: QLinearUnary) -> Tensor:
        made: Tensor = getattr(g, name)(m.x, m.x_scale, m.x_zero, m.y_scale, m.y_zero, **m.attributes)
        return made

    pattern.__doc__ = f"{name}."
    return pattern


class QLinearBinary(Captures):
    """Two quantised tensors and a result, each with its scale and its zero point."""

    a: Tensor
    a_scale: Tensor
    a_zero: Tensor | Any = None
    b: Tensor
    b_scale: Tensor
    b_zero: Tensor | Any = None
    y_scale: Tensor
    y_zero: Tensor | Any = None

    def scales(self) -> list[Numbers]:
        """The three scales, float32 scalars."""
        for scale in (self.a_scale, self.b_scale, self.y_scale):
            require(scale.is_constant and is_single_value(scale), "a scale is no constant of one number")
            require(scale.dtype == np.float32, "a scale is not float32")
        return [scale.values.reshape(-1)[0] for scale in (self.a_scale, self.b_scale, self.y_scale)]

    def zeros(self) -> list[Numbers]:
        """The three zero points, float32 scalars."""
        zeros = (self.a_zero, self.b_zero, self.y_zero)
        known = [zero for zero in zeros if zero is not None]
        require(all(zero.is_constant and is_single_value(zero) for zero in known), "a zero point is no constant number")
        return [np.float32(0) if zero is None else np.float32(zero.values.reshape(-1)[0]) for zero in zeros]

    def every(self) -> tuple[Numbers, Numbers]:
        """Every number that the first tensor can hold, and the second, in shapes that make every pair."""
        least, largest = dtype_range(self.a)
        numbers = np.arange(least, largest + 1).astype(np.float32)
        return numbers[:, None], numbers[None]

    def cut(self, made: Numbers) -> Numbers:
        """A result, rounded and clipped to the range of the dtype."""
        return np.clip(np.rint(made), *dtype_range(self.a))

    def takes_pairs(self) -> bool:
        """Whether TensorRT quantises so: to int8 around 0."""
        return all(map(is_symmetric_int8, (self.a_zero, self.b_zero, self.y_zero)))

    def between(self, g: Graph, made: Tensor) -> Tensor:
        """A result of the dequantised tensors, quantised."""
        return g.quantize_linear(made, self.y_scale, self.y_zero)

    def dequantized(self, g: Graph) -> list[Tensor]:
        """Both tensors as the floats that they stand for."""
        of_a, of_b = (self.a, self.a_scale, self.a_zero), (self.b, self.b_scale, self.b_zero)
        return [g.dequantize_linear(*of_a), g.dequantize_linear(*of_b)]


def fused_multiply_add(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    """a · b + c, rounded once to float32: a product of two of float32 is exact in float64."""
    return (np.float64(a) * np.float64(b) + np.float64(c)).astype(np.float32)


def neighbouring_floats(number: Numbers) -> Iterator[Numbers]:
    """A number of float32, and its nearest neighbours."""
    for steps in ULP_STEPS:
        moved = number
        for _ in range(abs(steps)):
            moved = np.nextafter(moved, np.float32(np.copysign(np.inf, steps)))
        yield moved
