"""matmul_integer_to_float: products of integers with their scales as one node, and what does not match."""

import pytest
from surgeon.patterns.cleanup.constant_folding import constant_folding
from surgeon.patterns.quantization.matmul_integer_to_float import matmul_integer_to_float

from surgeon.testing import Case, check_fires, check_spares, parse
from tests.patterns.quantised import quantised

HEAD = "(uint8[n, 2] x) => (float[n, 3] y)"
CONSTANTS = (
    "int8[2, 3] w = {1, -2, 3, 4, -5, 6}, uint8[2, 3] u = {10, 20, 30, 40, 50, 250}, float k = {0.125}, "
    "float s = {0.5}, float[1] s1 = {0.5}, float[3] each = {0.5, 0.25, 2}, float[2, 1] tall = {0.5, 2}, "
    "uint8 z = {100}, uint8 uz = {128}, int8[3] zeros = {1, 0, -1}, uint8[2] by_row = {1, 2}, float[3] b = {1, 2, 3}, "
    "int8[2, 2, 3] two = {1, -2, 3, 4, -5, 6, 1, -2, 3, 4, -5, 6}, int8[2] vector = {3, -4}"
)


def graph(product, end="m = Mul(k, s) y = Mul(f, m)", head=HEAD, opset=17):
    header = f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> agraph '
    return parse(f"{header}{head} <{CONSTANTS}> {{ i = {product} f = Cast<to = 1>(i) {end} }}")


# fmt: off
FIRES = [
    *(
        Case(matmul_integer_to_float, f"quantize_dynamic: two products of one tensor, {'by column' * per_channel}",
             sites=2,
             model=quantised("c = MatMul(x, w) y = Add(c, b) z = MatMul(x, v)", per_channel=per_channel, signed=True,
                             head="(float[n, 3, 8] x) => (float[n, 3, 6] y, float[n, 3, 6] z)"))
        for per_channel in (False, True)
    ),
    *(
        Case(matmul_integer_to_float, f"quantize_dynamic: a batch of right factors, {'signed' * signed}",
             quantised("y = MatMul(x, batched)", "(float[2, 3, 8] x) => (float[2, 3, 6] y)", signed=signed))
        for signed in (False, True)
    ),
    Case(matmul_integer_to_float, "quantize_dynamic: both factors computed",
         quantised("y = MatMul(x, c)", "(float[2, 3, 8] x, float[2, 8, 5] c) => (float[2, 3, 5] y)",
                   constant_only=False)),
    Case(matmul_integer_to_float, "no zero points", graph("MatMulInteger(x, w)")),
    Case(matmul_integer_to_float, "a zero point on the left", graph("MatMulInteger(x, w, z)")),
    Case(matmul_integer_to_float, "a zero point on the right alone", graph("MatMulInteger(x, u, , uz)")),
    Case(matmul_integer_to_float, "a scale and a zero point for each column, and a bias",
         graph("MatMulInteger(x, w, z, zeros)", "m = Mul(each, k) p = Mul(m, f) y = Add(b, p)")),
    Case(matmul_integer_to_float, "one after the other",
         graph("MatMulInteger(x, w)", "m = Mul(f, each) y = Mul(m, k)")),
    Case(matmul_integer_to_float, "scales that are computed",
         graph("MatMulInteger(x, w, z)", "m = Mul(c, d) y = Mul(f, m)",
               "(uint8[n, 2] x, float c, float[3] d) => (float[n, 3] y)")),
    Case(matmul_integer_to_float, "one scale", graph("MatMulInteger(x, w, z)", "y = Mul(f, s1)")),
    Case(matmul_integer_to_float, "one scale for each column, and a bias",
         graph("MatMulInteger(x, w, z)", "p = Mul(each, f) y = Add(p, b)")),
    Case([constant_folding, matmul_integer_to_float], "scales that fold into one", sites=2,
         model=graph("MatMulInteger(x, w, z)", "m = Mul(k, each) y = Mul(f, m)")),
    Case(matmul_integer_to_float, "int8 on both sides",
         graph("MatMulInteger(x, w)", head="(int8[n, 2] x) => (float[n, 3] y)"), check="sites"),
    Case(matmul_integer_to_float, "a vector on the left",
         graph("MatMulInteger(x, w, z)", head="(uint8[2] x) => (float[3] y)")),
    Case(matmul_integer_to_float, "back to primitives", target="decomposed",
         model=parse(f"{HEAD} <{CONSTANTS}> {{ y = com.microsoft.MatMulIntegerToFloat(x, w, k, each, z, zeros, b) }}")),
]
NEGATIVES = [
    Case(matmul_integer_to_float, "a zero point for each row on the left", why="must be one number",
         model=graph("MatMulInteger(x, w, by_row)", head="(uint8[2, 2] x) => (float[2, 3] y)")),
    Case(matmul_integer_to_float, "a scale for each row", why="one number for each column",
         model=graph("MatMulInteger(x, w, z)", "y = Mul(f, tall)", "(uint8[2, 2] x) => (float[2, 3] y)")),
    Case(matmul_integer_to_float, "a scale that varies from row to row", why="one number for each column",
         model=graph("MatMulInteger(x, w, z)", "y = Mul(f, d)", "(uint8[2, 2] x, float[2, 3] d) => (float[2, 3] y)")),
    Case(matmul_integer_to_float, "a scale for each column of a batch of right factors", why="must be one number",
         model=graph("MatMulInteger(x, two, z)", "y = Mul(f, each)", "(uint8[2, 4, 2] x) => (float[2, 4, 3] y)")),
    Case(matmul_integer_to_float, "a vector on the right", why="is a vector",
         model=graph("MatMulInteger(x, vector, z)", "y = Mul(f, s1)", "(uint8[n, 2] x) => (float[n] y)")),
    Case(matmul_integer_to_float, "the product is read as it is, too", why="is also read by",
         model=graph("MatMulInteger(x, w, z)", "y = Mul(f, s) v = Neg(f)",
                     "(uint8[n, 2] x) => (float[n, 3] y, float[n, 3] v)")),
    Case(matmul_integer_to_float, "a result in float16", why="",
         model=parse(f"(uint8[n, 2] x, float16 c) => (float16[n, 3] y) <{CONSTANTS}> "
                     "{ i = MatMulInteger(x, w) f = Cast<to = 10>(i) y = Mul(f, c) }")),
    Case(matmul_integer_to_float, "uint8 to the right of int8", why="kernel", ep="cpu",
         model=graph("MatMulInteger(x, u)", head="(int8[n, 2] x) => (float[n, 3] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
