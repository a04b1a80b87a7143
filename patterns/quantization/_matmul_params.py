"""Products of integer matrices that represent floats: scales, zero points and biases that ONNX Runtime supports.

A float is (integer − zero point) · scale.  The left factor has one number for each.  The right factor has one number,
or one for each column (MatMulIntegerBase::IsBQuantParamSupported in ONNX Runtime).
"""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require


class QuantizedMatMul(Captures):
    """Two factors, the scale and the zero point of each, optionally both scales in one, and a bias."""

    a: Tensor
    b: Tensor
    a_scale: Tensor | None = None
    b_scale: Tensor | Any = None
    scale: Tensor | None = None
    a_zero: Tensor | None = None
    b_zero: Tensor | None = None
    bias: Tensor | None = None


def is_single_value(x: Tensor) -> bool:
    """Return whether a tensor is known to contain one number."""
    return x.rank is not None and x.rank < 2 and set(x.shape) <= {1}


def require_number(x: Tensor | None, what: str) -> None:
    """Refuse a scale or a zero point of the left factor that is not one number."""
    require(x is None or x.rank is not None, f"the shape of {what} is unknown")
    require(x is None or is_single_value(x), f"{what} must be one number")


def require_matrix(b: Tensor) -> None:
    """Refuse a vector as the right factor: a number for each column would broadcast the product to a larger shape."""
    require(b.rank is not None, "the rank of the right factor is unknown")
    require(b.rank > 1, "the right factor must be a matrix, but it is a vector")


def column_parameter(g: Graph, x: Tensor, a: Tensor, b: Tensor, what: str) -> Tensor:
    """Return a scale or zero point of the right factor, or a bias: one number, or a vector with one for each column.

    A constant may have leading axes of size 1, which are removed.  It must not have more axes than the left factor a.
    """
    if is_single_value(x):
        return x
    require(x.rank is not None, f"the shape of {what} is unknown")
    require(b.rank == 2, f"{what} must be one number if the right factor is not a matrix")
    require(
        set(x.shape[:-1]) <= {1} and x.shape[-1] in (1, b.shape[-1]), f"{what} must have one number for each column"
    )
    require(x.rank == 1 or x.is_constant, f"{what} must be a vector")
    require(
        x.rank == 1 or (a.rank is not None and x.rank <= a.rank), f"{what} may broadcast the product to a larger shape"
    )
    return x if x.rank == 1 else g.literal(x.values.reshape(-1))


def right_zero_point(g: Graph, zero: Tensor | None, a: Tensor, b: Tensor) -> Tensor | None:
    """Return the zero point of the right factor, or None."""
    return None if zero is None else column_parameter(g, zero, a, b=b, what="the zero point of the right factor")


def column_bias(g: Graph, bias: Tensor | None, a: Tensor, b: Tensor) -> Tensor | None:
    """Return a bias as a vector with one number for each column.  A single number is repeated."""
    if bias is None:
        return None
    found = column_parameter(g, bias, a, b=b, what="the bias")
    width = b.shape[-1]
    if tuple(found.shape) == (width,):
        return found
    require(bias.is_constant and isinstance(width, int), "the bias must be a vector with one number for each column")
    return g.literal(np.broadcast_to(bias.values.reshape(-1), width).copy())
