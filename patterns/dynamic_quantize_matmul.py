"""A product with a quantised matrix, its left factor quantised on the way: DynamicQuantizeMatMul of ONNX Runtime."""

from surgeon import Constant, Graph, Tensor, require, rule
from ._quantized import along_columns, bias_of, zero_of
from .matmul_integer_to_float import node as to_float
from .matmul_integer_to_float import product


def quantized(g: Graph, x: Tensor, b: Constant, b_scale: Constant, b_zero: Constant | None = None) -> Tensor:
    """x, quantised by its own range, times a quantised matrix."""
    a, a_scale, a_zero = g.dynamic_quantize_linear(x)
    return product(g, a, b, a_scale, b_scale, a_zero, b_zero)


def with_bias(
    g: Graph, x: Tensor, b: Constant, b_scale: Constant, bias: Tensor, b_zero: Constant | None = None
) -> Tensor:
    """As quantized, and a bias."""
    return g.add(quantized(g, x, b, b_scale, b_zero), bias)


def of_one_node(
    g: Graph, x: Tensor, b: Constant, b_scale: Constant, b_zero: Constant | None = None, bias: Tensor | None = None
) -> Tensor:
    """As with_bias, where all behind the quantisation is one MatMulIntegerToFloat."""
    a, a_scale, a_zero = g.dynamic_quantize_linear(x)
    return to_float(g, a, b, a_scale, b_scale, a_zero, b_zero, bias)


def node(
    g: Graph, x: Tensor, b: Constant, b_scale: Constant, b_zero: Constant | None = None, bias: Tensor | None = None
) -> Tensor:
    """DynamicQuantizeMatMul."""
    return g.ms_dynamic_quantize_matmul(x, b, b_scale, b_zero, bias)


@rule(patterns=[with_bias, quantized, of_one_node], target="ort", form_patterns=[node])
def dynamic_quantize_matmul(
    g: Graph, x: Tensor, b: Constant, b_scale: Constant, b_zero: Constant | None = None, bias: Tensor | None = None
) -> Tensor:
    """Fuse DynamicQuantizeLinear and the product behind it into com.microsoft::DynamicQuantizeMatMul.

    What: a MatMulInteger with the Cast and the scales behind it, as onnxruntime.quantization.quantize_dynamic writes
    them, and the bias where there is one; the right factor is a matrix of constants, in one scale or one for each
    column.  Where several products read what was quantised once, they become MatMulIntegerToFloat.
    Numerics: rounding only.
    """
    require(b.rank == 2, "DynamicQuantizeMatMul takes a matrix as its right factor, no batch of them")
    scale = along_columns(g, b_scale, x, b, "the scale of the right factor")
    return g.ms_dynamic_quantize_matmul(x, b, scale, zero_of(g, b_zero, x, b), bias_of(g, bias, x, b))


@dynamic_quantize_matmul.on("decomposed")
def _(
    g: Graph, x: Tensor, b: Constant, b_scale: Constant, b_zero: Constant | None = None, bias: Tensor | None = None
) -> Tensor:
    made = quantized(g, x, b, b_scale, b_zero)
    return made if bias is None else g.add(made, bias)
