"""Eight-bit integers as floats, their scales and zero points."""

from typing import Any

import numpy as np

from surgeon import Constant, Graph, Tensor, require
from ._matmul_params import is_single_value

NAN_CAST_DIFFERS = {"non_finite": "each runtime casts NaN to another integer"}
RANGES = {"uint8": (0, 255), "int8": (-128, 127)}


def dtype_range(x: Tensor) -> tuple[int, int]:
    """Return the least and the largest value of an eight-bit dtype."""
    require(str(x.dtype) in RANGES, f"only int8 and uint8 are supported, but the dtype is {x.dtype}")
    return RANGES[str(x.dtype)]


def to_float32(g: Graph, x: Tensor) -> Tensor:
    """Cast x to float32.  A constant stays a constant."""
    return g.literal(x.values.astype(np.float32)) if x.is_constant else g.cast(x, to="float32")


def minus_zero_point(g: Graph, x: Tensor, zero: Tensor | None, shape: list[int]) -> Tensor:
    """Return x − zero as float32, with the zero point in this shape.

    If x is a constant and x − zero fits int8, it stays int8 before a DequantizeLinear: TensorRT keeps such weights
    small.
    """
    if x.is_constant and (zero is None or zero.is_constant):
        whole = constant_minus_zero_point(x, zero, shape)
        if abs(whole).max(initial=0) < 128:
            return g.dequantize_linear(whole.astype(np.int8), np.array(1, np.float32))
        return g.literal(whole.astype(np.float32))
    if zero is None or (zero.is_constant and not zero.values.any()):
        return to_float32(g, x)
    return g.sub(to_float32(g, x), broadcast_parameter(g, to_float32(g, zero), zero, shape))


def constant_minus_zero_point(x: Tensor, zero: Tensor | None, shape: list[int]) -> np.ndarray[Any, Any]:
    """Return the values of x − zero for two constants."""
    values = x.values.astype(np.int32)
    if zero is None:
        return values
    taken = zero.values.astype(np.int32)
    return values - (taken.reshape(()) if taken.size == 1 else taken.reshape(shape) if taken.ndim == 1 else taken)


def broadcast_parameter(g: Graph, made: Tensor, like: Tensor, shape: list[int]) -> Tensor:
    """Return a computed scale or zero point in the shape in which it broadcasts.  `like` has one number or a vector."""
    require(like.rank is not None, "the shape of a scale or a zero point is unknown")
    if isinstance(made, Constant) and made.values.size == 1:
        return g.literal(made.values.reshape(()))
    if like.rank != 1 or shape == [-1]:
        return made
    return g.literal(made.values.reshape(shape)) if isinstance(made, Constant) else g.reshape(made, shape)


def combined_scale(g: Graph, a: Tensor, b: Tensor, y: Tensor, shape: list[int]) -> Tensor:
    """Return a · b / y in float32, as in ONNX Runtime. b may have one number for each column or channel."""
    for scale, what in ((a, "left"), (y, "result's")):
        require(scale.dtype == np.float32 and b.dtype == np.float32, "the scales must be float32")
        require(is_single_value(scale), f"the {what} scale must be one number")
    if a.is_constant and b.is_constant and y.is_constant:
        found = a.values.reshape(-1)[0] * b.values / y.values.reshape(-1)[0]
        return g.literal(found.reshape(()) if found.size == 1 else found.reshape(shape))
    require(b.rank is not None and b.rank < 2, "the scale of the right factor must be a vector or one number")
    return broadcast_parameter(g, g.div(g.mul(a, b), y), b, shape)


def round_and_saturate(g: Graph, x: Tensor, zero: Tensor | Any, like: Tensor) -> Tensor:
    """Return round(x) + zero, clipped to the range of the dtype of `like`, in that dtype."""
    least, largest = dtype_range(like)
    whole = g.round(x)
    whole = whole if zero is None else g.add(whole, zero)
    return g.cast(g.clip(whole, np.array(least, np.float32), np.array(largest, np.float32)), to=str(like.dtype))
