"""Products of integer matrices, computed in floats, for targets that support only products of floats."""


import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule
from ._exact_sums import PartialSums, as_float, as_int32, max_magnitude, partial_sums, split_points
from ._matmul_params import QuantizedMatMul
from ._scale_zero_point import (
    broadcast_parameter,
    combined_scale,
    constant_minus_zero_point,
    minus_zero_point,
    round_and_saturate,
    to_float32,
)


class QLinearMatMul(Captures):
    """Two factors and their product, each with its scale and its zero point."""

    a: Tensor
    a_scale: Tensor
    a_zero: Tensor
    b: Tensor
    b_scale: Tensor
    b_zero: Tensor
    y_scale: Tensor
    y_zero: Tensor


def exact_matmul(
    g: Graph, a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None, *, turned: bool = False
) -> PartialSums:
    """Return (a − a_zero) @ (b − b_zero) as floats, divided into parts that are exact.

    turned: whether the matrix b is transposed.
    """
    require(a.rank is not None and b.rank is not None, "the rank of a factor is unknown")
    inner = -1 if b.rank == 1 else -2
    axis = -1 if turned else inner
    columns = [-1, 1] if turned else [-1]  # the shape of a zero point for each column
    size = b.shape[axis]
    depth = size if isinstance(size, int) else a.shape[-1]
    require(isinstance(depth, int), "the number of summed products is not fixed")
    bounds = np.full((depth, 1), max_magnitude(b, b_zero))
    if b.is_constant and (b_zero is None or b_zero.is_constant):
        whole = abs(constant_minus_zero_point(b, b_zero, columns))
        bounds = np.moveaxis(whole, axis, 0).reshape(depth, -1)
    places = split_points(bounds, max_magnitude(a, a_zero))
    left, right = minus_zero_point(g, a, a_zero, [-1, 1]), minus_zero_point(g, b, b_zero, columns)
    right = g.transpose(right, perm=[1, 0]) if turned else right

    def part(start: int, stop: int) -> Tensor:
        if stop - start == depth:
            return g.matmul(left, right)
        return g.matmul(g.slice(left, [start], [stop], [-1]), g.slice(right, [start], [stop], [inner]))

    return partial_sums(g, places, part)


def product(g: Graph, m: QuantizedMatMul) -> Tensor:
    """(a − a_zero) @ (b − b_zero) in int32."""
    return g.matmul_integer(m.a, m.b, m.a_zero, m.b_zero)


def product_as_float(g: Graph, m: QuantizedMatMul) -> Tensor:
    """The same as float32."""
    return g.cast(product(g, m), to=1)


@rule(patterns=[product_as_float], target="any", lacking=True)
def cast_matmul_integer(g: Graph, m: QuantizedMatMul) -> Tensor:
    """Write a MatMulInteger that is cast to float32 as a MatMul of floats.

    What: (a − a_zero) @ (b − b_zero), if the target does not support products of integers.  Sums that may exceed the
    exact integers of float32 are divided into parts, which are added as int32.
    Numerics: none.  Every product and every sum is an integer below 2²⁴.
    """
    return as_float(g, exact_matmul(g, m.a, m.b, a_zero=m.a_zero, b_zero=m.b_zero))


@rule(patterns=[product], target="any", lacking=True)
def matmul_integer(g: Graph, m: QuantizedMatMul) -> Tensor:
    """Write a MatMulInteger as a MatMul of floats that is cast to int32.

    What: (a − a_zero) @ (b − b_zero), if the target does not support products of integers.  Sums that may exceed the
    exact integers of float32 are divided into parts, which are added as int32.
    Numerics: none.  Every product and every sum is an integer below 2²⁴.
    """
    return as_int32(g, exact_matmul(g, m.a, m.b, a_zero=m.a_zero, b_zero=m.b_zero))


def scaled(g: Graph, m: QLinearMatMul) -> Tensor:
    """QLinearMatMul."""
    return g.qlinear_matmul(m.a, m.a_scale, m.a_zero, m.b, m.b_scale, m.b_zero, m.y_scale, m.y_zero)


@rule(patterns=[scaled], target="any", lacking=True)
def qlinear_matmul(g: Graph, m: QLinearMatMul) -> Tensor:
    """Write a QLinearMatMul as a MatMul of floats that is scaled, rounded and clipped.

    What: round((a − a_zero) @ (b − b_zero) · a_scale · b_scale / y_scale) + y_zero, if the target does not support
    products of integers.
    Numerics: none.  The products are integers, and the scales are multiplied as in ONNX Runtime.
    """
    made = as_float(g, exact_matmul(g, m.a, m.b, a_zero=m.a_zero, b_zero=m.b_zero))
    scale = combined_scale(g, m.a_scale, m.b_scale, y=m.y_scale, shape=[-1])
    zero = broadcast_parameter(g, to_float32(g, m.y_zero), m.y_zero, [-1])
    return round_and_saturate(g, g.mul(made, scale), zero, m.y_zero)


