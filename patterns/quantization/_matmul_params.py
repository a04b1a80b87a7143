"""Products of integer matrices that stand for floats: what ONNX Runtime's kernels take of scales, zero points, biases.

A float is (integer − zero point) · scale.  Of the left factor both are one number; of the right one number, or one for
each column (MatMulIntegerBase::IsBQuantParamSupported in ONNX Runtime).
"""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require


class QuantizedMatMul(Captures):
    """Two factors, the scale and the zero point of each, both scales in one perhaps, and a bias."""

    a: Tensor
    b: Tensor
    a_scale: Tensor | None = None
    b_scale: Tensor | Any = None
    scale: Tensor | None = None
    a_zero: Tensor | None = None
    b_zero: Tensor | None = None
    bias: Tensor | None = None


def is_single_value(x: Tensor) -> bool:
    """Whether a tensor is known to hold one number."""
    return x.rank is not None and x.rank < 2 and set(x.shape) <= {1}


def require_number(x: Tensor | None, what: str) -> None:
    """Refuse anything but one number as a scale or a zero point of the left factor."""
    require(x is None or x.rank is not None, f"the shape of {what} is unknown")
    require(x is None or is_single_value(x), f"{what} must be one number")


def require_matrix(b: Tensor) -> None:
    """Refuse a vector as the right factor: what stands beside each column would widen the product."""
    require(b.rank is not None, "the rank of the right factor is unknown")
    require(b.rank > 1, "the right factor is a vector")


def column_parameter(g: Graph, x: Tensor, a: Tensor, b: Tensor, what: str) -> Tensor:
    """A scale or a zero point of the right factor, or a bias: one number, or a vector of one for each column of b.

    A constant may have axes of size 1 before that of the columns, no more in all than the left factor a; they go.
    """
    if is_single_value(x):
        return x
    require(x.rank is not None, f"the shape of {what} is unknown")
    require(b.rank == 2, f"{what} must be one number where the right factor is no matrix")
    require(set(x.shape[:-1]) <= {1} and x.shape[-1] in (1, b.shape[-1]), f"{what} must be one for each column")
    require(x.rank == 1 or x.is_constant, f"{what} must be a vector")
    require(x.rank == 1 or (a.rank is not None and x.rank <= a.rank), f"{what} may widen the product")
    return x if x.rank == 1 else g.literal(x.values.reshape(-1))


def right_zero_point(g: Graph, zero: Tensor | None, a: Tensor, b: Tensor) -> Tensor | None:
    """The zero point of the right factor, where it has one."""
    return None if zero is None else column_parameter(g, zero, a, b=b, what="the zero point of the right factor")


def column_bias(g: Graph, bias: Tensor | None, a: Tensor, b: Tensor) -> Tensor | None:
    """A bias as a vector, one number for each column; one number for all of them is repeated."""
    if bias is None:
        return None
    found = column_parameter(g, bias, a, b=b, what="the bias")
    width = b.shape[-1]
    if tuple(found.shape) == (width,):
        return found
    require(bias.is_constant and isinstance(width, int), "the bias must be a vector, one number for each column")
    return g.literal(np.broadcast_to(bias.values.reshape(-1), width).copy())
