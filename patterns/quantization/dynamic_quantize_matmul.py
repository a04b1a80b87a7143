"""A product with a quantised matrix that quantises its left factor: DynamicQuantizeMatMul of ONNX Runtime."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule
from ._matmul_params import column_bias, column_parameter, right_zero_point


class Product(Captures):
    """A tensor, the matrix that multiplies it, the scale and zero point of the matrix, and a bias."""

    x: Tensor
    b: Tensor
    b_scale: Tensor
    b_zero: Tensor | Any = None
    bias: Tensor | None = None


def product(g: Graph, m: Product) -> Tensor:
    """x, quantised by its own range, times a quantised matrix."""
    a, a_scale, a_zero = g.dynamic_quantize_linear(m.x)
    return g.mul(g.cast(g.matmul_integer(a, m.b, a_zero, m.b_zero), to=1), g.mul(a_scale, m.b_scale))


def with_bias(g: Graph, m: Product) -> Tensor:
    """The same as product, with a bias."""
    return g.add(product(g, m), m.bias)


def of_one_node(g: Graph, m: Product) -> Tensor:
    """The same as with_bias, if MatMulIntegerToFloat computes everything after the quantisation."""
    a, a_scale, a_zero = g.dynamic_quantize_linear(m.x)
    return g.ms_matmul_integer_to_float(a, m.b, a_scale, m.b_scale, a_zero, m.b_zero, m.bias)


def node(g: Graph, m: Product) -> Tensor:
    """DynamicQuantizeMatMul."""
    return g.ms_dynamic_quantize_matmul(m.x, m.b, m.b_scale, m.b_zero, m.bias)


@rule(patterns=[with_bias, product, of_one_node], target="ort", form_patterns=[node])
def dynamic_quantize_matmul(g: Graph, m: Product) -> Tensor:
    """Fuse DynamicQuantizeLinear and the product after it into com.microsoft::DynamicQuantizeMatMul.

    What: a MatMulInteger with the Cast and the scales after it, and an optional bias, as
    onnxruntime.quantization.quantize_dynamic writes them.  The right factor is a matrix, with one scale or one for
    each column.  If several products read the same quantised tensor, they become MatMulIntegerToFloat instead.
    Numerics: rounding only.
    """
    require(m.b.rank == 2, "DynamicQuantizeMatMul needs a single matrix as its right factor")
    scale = column_parameter(g, m.b_scale, m.x, b=m.b, what="the scale of the right factor")
    zero, bias = right_zero_point(g, m.b_zero, m.x, m.b), column_bias(g, m.bias, m.x, m.b)
    return g.ms_dynamic_quantize_matmul(m.x, m.b, scale, zero, bias)


@dynamic_quantize_matmul.on("decomposed")
def _(g: Graph, m: Product) -> Tensor:
    return product(g, m) if m.bias is None else with_bias(g, m)
