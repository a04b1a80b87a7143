"""dynamic_quantize_matmul: what quantize_dynamic and others write as one node, and what does not match."""

import pytest
from surgeon.patterns.quantization.dynamic_quantize_matmul import dynamic_quantize_matmul

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.patterns.quantised import HEAD, quantised

MATRIX = "(float[n, 8] x) => (float[n, 6] y)"
SMALL = "(float[n, 2] x) => (float[n, 3] y)"
CONSTANTS = (
    "int8[2, 3] w = {1, -2, 3, 4, -5, 6}, uint8[2, 3] u = {10, 20, 30, 40, 50, 250}, float s = {0.5}, "
    "float[3] each = {0.5, 0.25, 2}, float[1, 3] row = {0.5, 0.25, 2}, float[2, 1] tall = {0.5, 2}, "
    "uint8 uz = {128}, int8[3] zeros = {1, 0, -1}, int8[1, 3] flat = {1, 0, -1}, float[3] b = {1, 2, 3}, "
    "float[1, 1, 3] b3 = {1, 2, 3}, float one = {1.5}, int8[1, 2, 3] batched = {1, -2, 3, 4, -5, 6}"
)
RANGE = "q, k, z = DynamicQuantizeLinear(x) "


def graph(body, head=SMALL, opset=17):
    return parse(f'<ir_version: 8, opset_import: ["" : {opset}]> agraph {head} <{CONSTANTS}> {{ {RANGE}{body} }}')


def scaled(product, scale="m = Mul(k, s)", end="y = Mul(f, m)"):
    return f"i = {product} f = Cast<to = 1>(i) {scale} {end}"


# fmt: off
FIRES = [
    *(
        Case(dynamic_quantize_matmul, f"quantize_dynamic: {title}, {kind}",
             quantised(body, head, per_channel=per_channel, signed=signed))
        for title, body, head in (
            ("MatMul", "y = MatMul(x, w)", HEAD),
            ("MatMul and Add", "c = MatMul(x, w) y = Add(b, c)", HEAD),
            ("Gemm", "y = Gemm(x, w, b)", MATRIX),
            ("Gemm of a transpose without a bias", "y = Gemm<transB = 1>(x, t)", MATRIX),
        )
        for kind, per_channel, signed in (
            ("uint8", False, False), ("int8", False, True), ("uint8 by column", True, False),
            ("int8 by column", True, True),
        )
    ),
    Case(dynamic_quantize_matmul, "no zero point of the weights", graph(scaled("MatMulInteger(q, w, z)"))),
    Case(dynamic_quantize_matmul, "a scale and a zero point for each column",
         graph(scaled("MatMulInteger(q, w, z, zeros)", "m = Mul(each, k)", "y = Mul(m, f)"))),
    Case(dynamic_quantize_matmul, "the scales one after the other",
         graph(scaled("MatMulInteger(q, w, z)", "", "m = Mul(f, k) y = Mul(m, s)"))),
    Case(dynamic_quantize_matmul, "the scale of the weights first",
         graph(scaled("MatMulInteger(q, u, z, uz)", "", "m = Mul(f, s) y = Mul(k, m)"))),
    Case(dynamic_quantize_matmul, "a scale and a zero point with an axis of size 1 in front",
         graph(scaled("MatMulInteger(q, w, z, flat)", "m = Mul(k, row)"))),
    Case(dynamic_quantize_matmul, "a bias with axes of size 1 in front",
         graph(scaled("MatMulInteger(q, w, z)", end="p = Mul(f, m) y = Add(p, b3)"),
               "(float[n, 4, 2] x) => (float[n, 4, 3] y)")),
    Case(dynamic_quantize_matmul, "one number as a bias",
         graph(scaled("MatMulInteger(q, w, z)", end="p = Mul(f, m) y = Add(one, p)"))),
    Case(dynamic_quantize_matmul, "a computed bias",
         graph(scaled("MatMulInteger(q, w, z)", end="p = Mul(f, m) y = Add(p, c)"),
               "(float[n, 2] x, float[3] c) => (float[n, 3] y)")),
    Case(dynamic_quantize_matmul, "a residual is no bias and stays",
         graph(scaled("MatMulInteger(q, w, z)", end="p = Mul(f, m) y = Add(p, c)"),
               "(float[n, 2] x, float[n, 3] c) => (float[n, 3] y)")),
    Case(dynamic_quantize_matmul, "a vector on the left", graph(scaled("MatMulInteger(q, w, z)"),
                                                               "(float[2] x) => (float[3] y)")),
    Case(dynamic_quantize_matmul, "a right factor, a scale and a zero point that are inputs",
         graph(scaled("MatMulInteger(q, c, z, e)", "m = Mul(k, d)"),
               "(float[n, 2] x, int8[2, 3] c, float d, int8 e) => (float[n, 3] y)")),
    Case(dynamic_quantize_matmul, "opset 11", graph(scaled("MatMulInteger(q, w, z)"), opset=11)),
    Case(dynamic_quantize_matmul, "behind a MatMulIntegerToFloat",
         parse(f"{SMALL} <{CONSTANTS}> {{ {RANGE} y = com.microsoft.MatMulIntegerToFloat(q, u, k, s, z, uz, b) }}")),
    Case(dynamic_quantize_matmul, "back to primitives", target="decomposed",
         model=parse(f"{SMALL} <{CONSTANTS}> {{ y = com.microsoft.DynamicQuantizeMatMul(x, w, each, zeros, b) }}")),
]
NEGATIVES = [
    Case(dynamic_quantize_matmul, "two products of what was quantised once", why="is also read by",
         model=quantised("y = MatMul(x, w) z = MatMul(x, v)",
                         "(float[n, 3, 8] x) => (float[n, 3, 6] y, float[n, 3, 6] z)")),
    Case(dynamic_quantize_matmul, "a batch of right factors", why="a single matrix as its right factor",
         model=quantised("y = MatMul(x, batched)", "(float[2, 3, 8] x) => (float[2, 3, 6] y)")),
    Case(dynamic_quantize_matmul, "a scale of unknown length", why="one number for each column",
         model=graph(scaled("MatMulInteger(q, c, z)", "m = Mul(k, d)"),
                     "(float[n, 2] x, int8[2, 3] c, float[m] d) => (float[n, 3] y)")),
    Case(dynamic_quantize_matmul, "a scale for each row of the product", why="one number for each column",
         model=graph(scaled("MatMulInteger(q, w, z)", "m = Mul(k, tall)"), "(float[2, 2] x) => (float[2, 3] y)")),
    Case(dynamic_quantize_matmul, "a scale that gives the product of a vector an axis", why="may broadcast the product",
         model=graph(scaled("MatMulInteger(q, w, z)", "m = Mul(k, row)"), "(float[2] x) => (float[1, 3] y)")),
    Case(dynamic_quantize_matmul, "the zero point of the activation left out", why="",
         model=graph(scaled("MatMulInteger(q, w)"))),
    Case(dynamic_quantize_matmul, "the scale of another tensor", why="",
         model=parse(f"(float[n, 2] x, float[n, 2] c) => (float[n, 3] y) <{CONSTANTS}> {{ {RANGE} "
                     "o, p, r = DynamicQuantizeLinear(c) i = MatMulInteger(q, w, z) f = Cast<to = 1>(i) "
                     "m = Mul(p, s) y = Mul(f, m) }")),
    Case(dynamic_quantize_matmul, "a result in float16", why="",
         model=graph("i = MatMulInteger(q, w, z) f = Cast<to = 10>(i) h = Cast<to = 10>(k) y = Mul(f, h)",
                     "(float[n, 2] x) => (float16[n, 3] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_group_takes_a_quantised_layer_whole(per_channel):
    """Products that share what they read stay apart from it; one that has it alone takes it in."""
    model = quantised(
        "a = MatMul(x, w) c = MatMul(x, v) p = Add(a, b) r = Relu(p) s = Add(r, c) y = MatMul(s, t)",
        "(float[n, 3, 8] x) => (float[n, 3, 8] y)",
        per_channel=per_channel,
    )
    made, report = surgeon.rewrite(model, "ort", check="both")
    assert report.outcome == "proved"
    assert sorted(node.op_type for node in made.graph.node) == sorted(
        ["DynamicQuantizeLinear", *["MatMulIntegerToFloat"] * 2, "Relu", "Add", "DynamicQuantizeMatMul"]
    )


@pytest.mark.parametrize(("head", "ops"), [
    ("(float[n, 4, 2] x) => (float[n, 4, 3] y)", ["DynamicQuantizeMatMul"]),
    ("(float[n, 2] x) => (float[1, n, 3] y)", ["DynamicQuantizeMatMul", "Add"]),
])  # fmt: skip
def test_a_bias_that_widens_the_product_stays(head, ops):
    made, _ = surgeon.rewrite(
        graph(scaled("MatMulInteger(q, w, z)", end="p = Mul(f, m) y = Add(p, b3)"), head), dynamic_quantize_matmul
    )
    assert [node.op_type for node in made.graph.node] == ops
