"""A product of integer matrices with the scales that make it floats: MatMulIntegerToFloat of ONNX Runtime."""

from typing import Any

from surgeon import Graph, Tensor, rule
from ._quantized import along_columns, bias_of, require_matrix, require_number, zero_of


def product(
    g: Graph,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
) -> Tensor:
    """float((a − a_zero) @ (b − b_zero)) · a_scale · b_scale."""
    return g.mul(g.cast(g.matmul_integer(a, b, a_zero, b_zero), to=1), g.mul(a_scale, b_scale))


def with_bias(
    g: Graph,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    bias: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
) -> Tensor:
    """As product, and a bias."""
    return g.add(product(g, a, b, a_scale, b_scale, a_zero, b_zero), bias)


def in_one_scale(
    g: Graph, a: Tensor, b: Tensor, scale: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """The same by one scale: the product of both, folded or read by others too."""
    return g.mul(g.cast(g.matmul_integer(a, b, a_zero, b_zero), to=1), scale)


def in_one_scale_with_bias(
    g: Graph,
    a: Tensor,
    b: Tensor,
    scale: Tensor,
    bias: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
) -> Tensor:
    """As in_one_scale, and a bias."""
    return g.add(in_one_scale(g, a, b, scale, a_zero, b_zero), bias)


def node(
    g: Graph,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """MatMulIntegerToFloat."""
    return g.ms_matmul_integer_to_float(a, b, a_scale, b_scale, a_zero, b_zero, bias)


@rule(patterns=[with_bias, product, in_one_scale_with_bias, in_one_scale], target="ort", form_patterns=[node])
def matmul_integer_to_float(
    g: Graph,
    a: Tensor,
    b: Tensor,
    a_scale: Any = None,
    b_scale: Any = None,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
    scale: Any = None,
) -> Tensor:
    """Fuse a MatMulInteger with the Cast and the scales behind it into com.microsoft::MatMulIntegerToFloat.

    What: float((a − a_zero) @ (b − b_zero)) · a_scale · b_scale + bias, where the left factor has one scale and one
    zero point, and the right factor one of each or one for each column.
    Numerics: rounding only.
    """
    require_matrix(b)
    require_number(a_scale, "the scale of the left factor")
    require_number(a_zero, "the zero point of the left factor")
    left, right = (1.0, scale) if scale is not None else (a_scale, b_scale)
    right = along_columns(g, right, a, b, "the scale of the right factor")
    return g.ms_matmul_integer_to_float(a, b, left, right, a_zero, zero_of(g, b_zero, a, b), bias_of(g, bias, a, b))


@matmul_integer_to_float.on("decomposed")
def _(
    g: Graph,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    made = product(g, a, b, a_scale, b_scale, a_zero, b_zero)
    return made if bias is None else g.add(made, bias)
