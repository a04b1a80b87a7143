"""Quantised tensors, ops of ONNX Runtime on one or two of them, and float32 arithmetic as processors compute it."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require
from ._matmul_params import is_single_value
from ._scale_zero_point import dtype_range
from .quantize_linear import is_symmetric_int8

ULP_STEPS = sorted(range(-4, 5), key=abs)  # the float32 steps by which a constant is moved, smallest first
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
        """Return a function of the dequantised x, quantised."""
        floats = g.dequantize_linear(self.x, self.x_scale, self.x_zero)
        return g.quantize_linear(function(floats, **attributes), self.y_scale, self.y_zero)


def qlinear_pattern(name: str) -> Callable[[Graph, QLinearUnary], Tensor]:
    """Return the pattern of an op of ONNX Runtime."""

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
            require(scale.is_constant and is_single_value(scale), "a scale must be a constant with one number")
            require(scale.dtype == np.float32, "a scale must be float32")
        return [scale.values.reshape(-1)[0] for scale in (self.a_scale, self.b_scale, self.y_scale)]

    def zeros(self) -> list[Numbers]:
        """The three zero points, float32 scalars."""
        zeros = (self.a_zero, self.b_zero, self.y_zero)
        known = [zero for zero in zeros if zero is not None]
        require(
            all(zero.is_constant and is_single_value(zero) for zero in known),
            "a zero point must be a constant with one number",
        )
        return [np.float32(0) if zero is None else np.float32(zero.values.reshape(-1)[0]) for zero in zeros]

    def every(self) -> tuple[Numbers, Numbers]:
        """All values of the dtype of the first tensor, and of the second, in shapes that broadcast to all pairs."""
        least, largest = dtype_range(self.a)
        numbers = np.arange(least, largest + 1).astype(np.float32)
        return numbers[:, None], numbers[None]

    def cut(self, made: Numbers) -> Numbers:
        """Round a result and clip it to the range of the dtype."""
        return np.clip(np.rint(made), *dtype_range(self.a))

    def takes_pairs(self) -> bool:
        """Whether TensorRT supports this quantisation: int8 with zero point 0."""
        return all(map(is_symmetric_int8, (self.a_zero, self.b_zero, self.y_zero)))

    def between(self, g: Graph, made: Tensor) -> Tensor:
        """Quantise a result of the dequantised tensors."""
        return g.quantize_linear(made, self.y_scale, self.y_zero)

    def dequantized(self, g: Graph) -> list[Tensor]:
        """Dequantise both tensors."""
        of_a, of_b = (self.a, self.a_scale, self.a_zero), (self.b, self.b_scale, self.b_zero)
        return [g.dequantize_linear(*of_a), g.dequantize_linear(*of_b)]


def fused_multiply_add(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    """Return a · b + c, rounded once to float32.  A product of two float32 numbers is exact in float64."""
    return (np.float64(a) * np.float64(b) + np.float64(c)).astype(np.float32)


def neighbouring_floats(number: Numbers) -> Iterator[Numbers]:
    """Yield a float32 number and its nearest neighbours."""
    for steps in ULP_STEPS:
        moved = number
        for _ in range(abs(steps)):
            moved = np.nextafter(moved, np.float32(np.copysign(np.inf, steps)))
        yield moved
