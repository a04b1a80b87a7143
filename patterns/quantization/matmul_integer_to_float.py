"""A product of integer matrices with the scales that convert it to floats: MatMulIntegerToFloat of ONNX Runtime."""

from surgeon import Graph, Tensor, require, rule
from ._matmul_params import (
    QuantizedMatMul,
    column_bias,
    column_parameter,
    require_matrix,
    require_number,
    right_zero_point,
)


def product(g: Graph, m: QuantizedMatMul) -> Tensor:
    """float((a − a_zero) @ (b − b_zero)) · a_scale · b_scale."""
    return g.mul(g.cast(g.matmul_integer(m.a, m.b, m.a_zero, m.b_zero), to=1), g.mul(m.a_scale, m.b_scale))


def with_bias(g: Graph, m: QuantizedMatMul) -> Tensor:
    """The same as product, with a bias."""
    return g.add(product(g, m), m.bias)


def in_one_scale(g: Graph, m: QuantizedMatMul) -> Tensor:
    """The same with one scale: the product of both, which is folded or has other consumers."""
    return g.mul(g.cast(g.matmul_integer(m.a, m.b, m.a_zero, m.b_zero), to=1), m.scale)


def in_one_scale_with_bias(g: Graph, m: QuantizedMatMul) -> Tensor:
    """The same as in_one_scale, with a bias."""
    return g.add(in_one_scale(g, m), m.bias)


def node(g: Graph, m: QuantizedMatMul) -> Tensor:
    """MatMulIntegerToFloat."""
    return g.ms_matmul_integer_to_float(m.a, m.b, m.a_scale, m.b_scale, m.a_zero, m.b_zero, m.bias)


@rule(patterns=[with_bias, product, in_one_scale_with_bias, in_one_scale], target="ort", form_patterns=[node])
def matmul_integer_to_float(g: Graph, m: QuantizedMatMul) -> Tensor:
    """Fuse a MatMulInteger with the Cast and the scales after it into com.microsoft::MatMulIntegerToFloat.

    What: float((a − a_zero) @ (b − b_zero)) · a_scale · b_scale + bias.  The left factor has one scale and one zero
    point.  The right factor has one of each, or one for each column.
    Numerics: rounding only.
    """
    require_matrix(m.b)
    require_number(m.a_scale, "the scale of the left factor")
    require_number(m.a_zero, "the zero point of the left factor")
    left, right = (1.0, m.scale) if m.scale is not None else (m.a_scale, m.b_scale)
    right = column_parameter(g, right, m.a, b=m.b, what="the scale of the right factor")
    zero, bias = right_zero_point(g, m.b_zero, m.a, m.b), column_bias(g, m.bias, m.a, m.b)
    return g.ms_matmul_integer_to_float(m.a, m.b, left, right, m.a_zero, zero, bias)


@matmul_integer_to_float.on("decomposed")
def _(g: Graph, m: QuantizedMatMul) -> Tensor:
    require(m.scale is None, "it is already decomposed")
    return product(g, m) if m.bias is None else with_bias(g, m)
