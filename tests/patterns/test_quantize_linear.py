"""Quantisation that TensorRT refuses, in arithmetic: what fires and what does not."""

import pytest
from surgeon.patterns.quantization.dynamic_quantize_linear import dynamic_quantize_linear
from surgeon.patterns.quantization.integer_matmul import cast_matmul_integer, qlinear_matmul
from surgeon.patterns.quantization.quantize_linear import dequantize_linear, quantize_linear, uint8_qdq_to_int8
from surgeon.patterns.quantization.redundant_integer_casts import redundant_integer_casts

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

CONSTANTS = (
    "float s = {0.05}, float[4] each = {0.5, 0.25, 2, 0.1}, uint8[4] zeros = {1, 2, 100, 128}, uint8 z = {100}, "
    "uint8 middle = {128}, int8 three = {3}, int8 zero = {0}, int32[2] b = {100, -70000}, float tiny = {0.001}, "
    "uint8[4, 2] u = {1, 2, 3, 4, 5, 6, 7, 255}, uint8[2, 4] v = {1, 2, 3, 4, 5, 6, 7, 255}, uint8 uz = {4}, "
    "int64[2] flat = {-1, 8}"
)
HERE = "(float[n, 4, 2] x) => (float[n, 4, 2] y)"
FROM_BYTES = "(uint8[n, 4, 2] x) => (float[n, 4, 2] y)"
TO_BYTES = "(float[n, 4, 2] x) => (uint8[n, 4, 2] y)"
OF_THREE = "(float[n, 4, 2] x) => (uint8[n, 4, 2] y, float k, uint8 m)"
DYNAMIC = "a, sx, zx = DynamicQuantizeLinear(x) i = MatMulInteger(a, v, zx, uz) f = Cast<to = 1>(i) y = Mul(f, sx)"


def model(body, head=HERE, opset=17):
    return graph(body, head, CONSTANTS, opset)


# fmt: off
FIRES = [
    Case(quantize_linear, "to uint8", model("y = QuantizeLinear(x, s, z)", TO_BYTES), target="tensorrt"),
    Case(quantize_linear, "to int8 with a zero point", target="tensorrt",
         model=model("y = QuantizeLinear(x, s, three)", "(float[n, 4, 2] x) => (int8[n, 4, 2] y)")),
    Case(quantize_linear, "along an axis", model("y = QuantizeLinear(x, each, zeros)", TO_BYTES), target="tensorrt"),
    Case(quantize_linear, "a scale that is computed", target="tensorrt",
         model=model("y = QuantizeLinear(x, k, z)", "(float[n, 4, 2] x, float k) => (uint8[n, 4, 2] y)")),
    Case(dequantize_linear, "uint8", model("y = DequantizeLinear(x, s, z)", FROM_BYTES), target="tensorrt"),
    Case(dequantize_linear, "uint8 without a zero point", model("y = DequantizeLinear(x, s)", FROM_BYTES),
         target="tensorrt"),
    Case(dequantize_linear, "along an axis counted from the end", target="tensorrt",
         model=model("y = DequantizeLinear<axis = -2>(x, each, zeros)", FROM_BYTES)),
    Case(dequantize_linear, "weights that fit int8 once moved", target="tensorrt",
         model=model("a = DequantizeLinear<axis = 0>(u, each, zeros) y = Mul(a, x)")),
    Case(dequantize_linear, "weights that do not", target="tensorrt",
         model=model("a = DequantizeLinear(u, s, uz) y = Mul(a, x)")),
    Case(dequantize_linear, "a bias in int32", target="tensorrt",
         model=model("a = DequantizeLinear(b, tiny) y = Add(x, a)")),
    Case(dequantize_linear, "a bias in int32, its scale one number in a row", target="tensorrt",
         model=graph("a = DequantizeLinear(b, s, z) y = Add(x, a)", HERE,
                     "int32[1] b = {-70000}, float[1] s = {0.001}, int32 z = {0}")),
    Case(uint8_qdq_to_int8, "around 128", target="tensorrt",
         model=model("a = QuantizeLinear(x, s, middle) y = DequantizeLinear(a, s, middle)")),
    Case(dynamic_quantize_linear, "all that it makes", target="tensorrt",
         model=model("y, k, m = DynamicQuantizeLinear(x)", OF_THREE)),
    Case([quantize_linear, dequantize_linear, redundant_integer_casts], "both ways", target="tensorrt",
         model=model("a = QuantizeLinear(x, s, z) y = DequantizeLinear(a, s, z)")),
    Case([quantize_linear, qlinear_matmul, dequantize_linear, redundant_integer_casts], "a product between",
         target="tensorrt",
         model=model("a = QuantizeLinear(x, s, z) m = QLinearMatMul(a, s, z, v, s, uz, tiny, z) "
                              "y = DequantizeLinear(m, tiny, z)", "(float[n, 2] x) => (float[n, 4] y)")),
    Case([dynamic_quantize_linear, cast_matmul_integer, redundant_integer_casts], "as quantize_dynamic writes it",
         target="tensorrt", model=model(DYNAMIC, "(float[n, 2] x) => (float[n, 4] y)")),
    Case(redundant_integer_casts, "what was rounded, moved about", target="tensorrt",
         model=graph("r = Round(x) c = Clip(r, low, high) f = Flatten(c) a = Cast<to = 2>(f) y = Cast<to = 1>(a)",
                     "(float[n, 4, 2] x) => (float[n, 8] y)", "float low = {0}, float high = {255}")),
    Case(redundant_integer_casts, "what was cut off and then rounded", target="tensorrt",
         model=graph("c = Clip(x, low, high) r = Round(c) a = Cast<to = 2>(r) y = Cast<to = 1>(a)",
                     "(float[n, 4, 2] x) => (float[n, 4, 2] y)", "float low = {0}, float high = {255}")),
]
BUILT = Case(dequantize_linear, "a single number that is fixed", target="tensorrt",
             model=graph("a = DequantizeLinear(w, s, z) y = Mul(a, x)", "(float[2, 4] x) => (float[2, 4] y)",
                         "int8 w = {3}, float s = {0.5}, int8 z = {0}"))
NEGATIVES = [
    Case(quantize_linear, "to int8 around 0", target="tensorrt", why="with zero point 0",
         model=model("y = QuantizeLinear(x, s, zero)", "(float[n, 4, 2] x) => (int8[n, 4, 2] y)")),
    Case(quantize_linear, "for another target", why="no form for target ort",
         model=model("y = QuantizeLinear(x, s, z)", TO_BYTES)),
    Case(quantize_linear, "of half precision", target="tensorrt", why="the scale must be float32",
         model=graph("y = QuantizeLinear(x, k, z)", "(float16[n] x, float16 k) => (uint8[n] y)", "uint8 z = {3}", 19)),
    Case(dequantize_linear, "int8 around 0", target="tensorrt", why="with zero point 0",
         model=model("y = DequantizeLinear(x, s, zero)", "(int8[n, 4, 2] x) => (float[n, 4, 2] y)")),
    Case(dequantize_linear, "in blocks", target="tensorrt", why="in blocks",
         model=graph("y = DequantizeLinear<axis = 0, block_size = 2>(x, k, z)",
                     "(uint8[4] x, float[2] k) => (float[4] y)", "uint8[2] z = {3, 4}", 21)),
    Case(uint8_qdq_to_int8, "around another number", target="tensorrt", why="the zero point is not 128",
         model=model("a = QuantizeLinear(x, s, z) y = DequantizeLinear(a, s, z)")),
    Case(dynamic_quantize_linear, "ONNX Runtime has it", why="runs it as it is",
         model=model("y, k, m = DynamicQuantizeLinear(x)", OF_THREE)),
    Case(redundant_integer_casts, "what was not rounded", target="tensorrt", why="reversed",
         model=graph("c = Clip(x, low, high) a = Cast<to = 2>(c) y = Cast<to = 1>(a)",
                     "(float[n] x) => (float[n] y)", "float low = {0}, float high = {255}")),
    Case(redundant_integer_casts, "what was cut off at limits that are not whole", target="tensorrt", why="reversed",
         model=graph("c = Clip(x, low, high) r = Round(c) a = Cast<to = 2>(r) y = Cast<to = 1>(a)",
                     "(float[n] x) => (float[n] y)", "float low = {0}, float high = {255.7}")),
    Case(redundant_integer_casts, "what is larger than uint8", target="tensorrt", why="reversed",
         model=graph("r = Round(x) c = Clip(r, low, high) a = Cast<to = 2>(c) y = Cast<to = 1>(a)",
                     "(float[n] x) => (float[n] y)", "float low = {0}, float high = {256}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_a_number_is_built():
    """The parser takes it as it is, and the builder does not."""
    check_parses(BUILT, "86")
