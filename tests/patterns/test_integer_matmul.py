"""Products of integer matrices in whole floats: what fires and what does not."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.quantization.integer_matmul import cast_matmul_integer, matmul_integer, qlinear_matmul

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

CONSTANTS = (
    "int8[8, 3] w = {1, -2, 3, 4, -5, 6, 1, -2, 3, 4, -5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, -9}, "
    "uint8[8, 3] u = {10, 20, 30, 40, 50, 60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "
    "int8[3] zeros = {1, 0, -1}, uint8 z = {100}, uint8 uz = {128}, uint8[1] one = {3}, "
    "float s = {0.02}, float t = {0.5}, float[3] each = {0.5, 0.25, 2}"
)


def model(body, head="(uint8[n, 8] x) => (int32[n, 3] y)", opset=17):
    return graph(body, head, CONSTANTS, opset)


def deep(count, bits):
    """A product of `count` numbers, more than float32 adds up to a whole number where the bits are many.

    Of 6 at most: on processors without VNNI ONNX Runtime cuts off sums of two products beyond 16 bits.
    """
    made = graph("y = MatMulInteger(x, v)", f"(uint8[2, {count}] x) => (int32[2, 2] y)")
    values = np.full((count, 2), 2**bits - 1, np.int8)
    made.graph.initializer.append(numpy_helper.from_array(values, "v"))
    return made


# fmt: off
FIRES = [
    Case(matmul_integer, "no zero points", model("y = MatMulInteger(x, w)"), target="tensorrt"),
    Case(matmul_integer, "a zero point on the left", model("y = MatMulInteger(x, w, z)"), target="tensorrt"),
    Case(matmul_integer, "weights in uint8 that fit int8 once moved", model("y = MatMulInteger(x, u, z, uz)"),
         target="tensorrt"),
    Case(matmul_integer, "a zero point for each column, and a batch", target="tensorrt",
         model=model("y = MatMulInteger(x, w, z, zeros)", "(uint8[2, n, 8] x) => (int32[2, n, 3] y)")),
    Case(matmul_integer, "both factors and a zero point computed", target="tensorrt",
         model=model("y = MatMulInteger(x, v, z, k)", "(uint8[n, 8] x, uint8[8, 4] v, uint8 k) => (int32[n, 4] y)")),
    Case(matmul_integer, "opset 10", model("y = MatMulInteger(x, w, z)", opset=10), target="tensorrt"),
    Case(matmul_integer, "sums too long for float32, in parts", deep(2000, 6), target="tensorrt"),
    Case(matmul_integer, "as many of smaller numbers, in one", deep(2000, 3), target="tensorrt"),
    Case(cast_matmul_integer, "cast to float", target="tensorrt",
         model=model("i = MatMulInteger(x, w, z) y = Cast<to = 1>(i)", "(uint8[n, 8] x) => (float[n, 3] y)")),
    Case(qlinear_matmul, "a scale and a zero point for each column", target="tensorrt",
         model=model("y = QLinearMatMul(x, t, z, w, each, zeros, s, uz)", "(uint8[n, 8] x) => (uint8[n, 3] y)")),
    Case(qlinear_matmul, "a scale that is computed", target="tensorrt",
         model=model("y = QLinearMatMul(x, t, z, u, s, uz, k, one)", "(uint8[n, 8] x, float k) => (uint8[n, 3] y)")),
]
NEGATIVES = [
    Case(matmul_integer, "ONNX Runtime has it", model("y = MatMulInteger(x, w)"), why="runs it as it is"),
    Case(cast_matmul_integer, "ONNX Runtime has it", why="runs it as it is",
         model=model("i = MatMulInteger(x, w, z) y = Cast<to = 1>(i)", "(uint8[n, 8] x) => (float[n, 3] y)")),
    Case(matmul_integer, "nobody knows how much is summed", target="tensorrt", why="the number of summed products",
         model=model("y = MatMulInteger(x, v)", "(uint8[n, k] x, uint8[k, m] v) => (int32[n, m] y)")),
    Case(matmul_integer, "sums beyond any parts", target="tensorrt", why="too long to be exact",
         model=model("y = MatMulInteger(x, v)", "(uint8[2, 99999] x, uint8[99999, 2] v) => (int32[2, 2] y)")),
    Case(qlinear_matmul, "a scale for each row", target="tensorrt", why="left scale must be one number",
         model=model("y = QLinearMatMul(x, k, z, u, s, uz, s, one)", "(uint8[2, 8] x, float[2] k) => (uint8[2, 3] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
