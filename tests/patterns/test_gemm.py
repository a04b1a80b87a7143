"""gemm: which products, sums and transposes become one node, which do not, and the way back."""

import pytest
from surgeon.patterns.linear_algebra.gemm import gemm, gemm_sum, gemm_transposes

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 3] x) => (float[n, 4] y)"
CONSTANTS = (
    "float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, "
    "float[4, 3] wt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, "
    "float[4] b = {1, -2, 3, -4}, float one = {1}, float[1, 4] row = {4, 3, 2, 1}"
)


def graph(body, head=HEAD, constants=CONSTANTS, header=""):
    return parse(f"{header}{head} <{constants}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(gemm, "a vector behind the product", graph("p = MatMul(x, w) y = Add(p, b)")),
    Case(gemm, "a vector before it", graph("p = MatMul(x, w) y = Add(b, p)")),
    Case(gemm, "one number", graph("p = MatMul(x, w) y = Add(p, one)")),
    Case(gemm, "a row", graph("p = MatMul(x, w) y = Add(p, row)")),
    Case(gemm, "a matrix",
         graph("p = MatMul(x, w) y = Add(p, z)", "(float[n, 3] x, float[n, 4] z) => (float[n, 4] y)")),
    Case(gemm, "a column",
         graph("p = MatMul(x, w) y = Add(p, z)", "(float[n, 3] x, float[n, 1] z) => (float[n, 4] y)")),
    Case(gemm, "weights transposed", graph("t = Transpose<perm = [1, 0]>(wt) p = MatMul(x, t) y = Add(p, b)")),
    Case(gemm, "the left transposed",
         graph("t = Transpose<perm = [1, 0]>(x) p = MatMul(t, w) y = Add(p, b)", "(float[3, n] x) => (float[n, 4] y)")),
    Case(gemm, "both transposed",
         graph("t = Transpose<perm = [1, 0]>(x) u = Transpose<perm = [1, 0]>(wt) p = MatMul(t, u) y = Add(p, b)",
               "(float[3, n] x) => (float[n, 4] y)")),
    Case(gemm, "a transpose that another node reads stays",
         graph("t = Transpose<perm = [1, 0]>(x) p = MatMul(t, w) a = Add(p, b) s = ReduceSum<keepdims = 0>(t) "
               "y = Add(a, s)",
               "(float[3, n] x) => (float[n, 4] y)")),
    Case(gemm, "opset 7", graph("p = MatMul(x, w) y = Add(p, b)",
                                header='<ir_version: 6, opset_import: ["" : 7]> agraph ')),
    Case(gemm, "float16",
         parse("(float16[n, 3] x, float16[3, 4] w, float16[4] b) => (float16[n, 4] y) "
               "{ p = MatMul(x, w) y = Add(p, b) }")),
    Case(gemm, "to the standard", graph("p = MatMul(x, w) y = Add(p, b)"), target="onnx"),
    Case(gemm, "back", graph("y = Gemm(x, w, b)"), target="decomposed"),
    Case(gemm, "back with all that it has", target="decomposed",
         model=graph("y = Gemm<alpha = 0.5, beta = 2.0, transA = 1, transB = 1>(x, wt, b)",
                     "(float[3, n] x) => (float[n, 4] y)")),
    Case(gemm, "back without a bias", graph("y = Gemm<alpha = 2.0>(x, w)"), target="decomposed"),
    Case(gemm, "back with weights that are no constant", target="decomposed",
         model=graph("y = Gemm<transB = 1>(x, z, b)", "(float[n, 3] x, float[4, 3] z) => (float[n, 4] y)")),
    Case(gemm_sum, "a matrix behind a Gemm that scales its product",
         graph("p = Gemm<alpha = 0.5>(x, w) y = Add(z, p)", "(float[n, 3] x, float[n, 4] z) => (float[n, 4] y)")),
    Case(gemm_sum, "a row behind a Gemm with a beta that had no effect",
         graph("p = Gemm<beta = 2.0>(x, w) y = Add(p, row)")),
    Case(gemm_sum, "a column behind a Gemm of transposed matrices",
         graph("p = Gemm<transA = 1, transB = 1>(x, wt) y = Add(p, z)",
               "(float[3, n] x, float[n, 1] z) => (float[n, 4] y)")),
    Case(gemm_transposes, "both factors, one without perm",
         graph("t = Transpose(x) u = Transpose<perm = [1, 0]>(v) y = Gemm<alpha = 3.0, transA = 1>(t, u, b)",
               "(float[n, 3] x, float[4, 3] v) => (float[n, 4] y)")),
    Case(gemm_transposes, "a factor with another reader",
         graph("t = Transpose(x) y = Gemm(t, w) z = Relu(t)", "(float[3, n] x) => (float[n, 4] y, float[n, 3] z)")),
    Case(gemm_transposes, "the right factor", graph("u = Transpose(v) y = Gemm<transB = 1>(x, u, b)",
                                                    "(float[n, 3] x, float[3, 4] v) => (float[n, 4] y)")),
    Case(gemm_transposes, "the result",
         graph("p = Gemm<transA = 1>(x, v) y = Transpose(p)", "(float[3, n] x, float[3, 4] v) => (float[4, n] y)")),
    Case(gemm_transposes, "the result with a vector and a beta",
         graph("p = Gemm<beta = 2.0>(x, v, b) y = Transpose(p)", "(float[n, 3] x, float[3, 4] v) => (float[4, n] y)")),
    Case(gemm_transposes, "the result with one number",
         graph("p = Gemm(x, v, one) y = Transpose(p)", "(float[n, 3] x, float[3, 4] v) => (float[4, n] y)")),
    Case(gemm_transposes, "the result and a factor",
         graph("t = Transpose(x) p = Gemm<transB = 1>(t, v) y = Transpose<perm = [1, 0]>(p)",
               "(float[3, n] x, float[4, 3] v) => (float[4, n] y)")),
]
NEGATIVES = [
    Case(gemm, "three axes", why="needs 2-D inputs, but this one has 3 axes",
         model=graph("p = MatMul(x, w) y = Add(p, b)", "(float[n, 5, 3] x) => (float[n, 5, 4] y)")),
    Case(gemm, "a vector", why="has 1 axes",
         model=graph("p = MatMul(x, w) y = Add(p, b)", "(float[3] x) => (float[4] y)")),
    Case(gemm, "an unknown rank", why="the rank of a factor is unknown",
         model=graph("x = my.Unknown(z) p = MatMul(x, w) y = Add(p, b)", "(float[n, 3] z) => (float[n, 4] y)",
                     header='<ir_version: 8, opset_import: ["" : 17, "my" : 1]> agraph ')),
    Case(gemm, "a bias that adds an axis", why="may broadcast the product",
         model=graph("p = MatMul(x, w) y = Add(p, z)", "(float[n, 3] x, float[2, n, 4] z) => (float[2, n, 4] y)")),
    Case(gemm, "a bias with more rows", why="may broadcast the product",
         model=graph("p = MatMul(x, w) y = Add(p, z)", "(float[1, 3] x, float[n, 4] z) => (float[n, 4] y)")),
    Case(gemm, "a bias with other rows, for all one knows", why="may broadcast the product",
         model=graph("p = MatMul(x, w) y = Add(p, z)", "(float[n, 3] x, float[m, 4] z) => (float[k, 4] y)")),
    Case(gemm, "integers", why="integers",
         model=parse("(int32[n, 3] x, int32[3, 4] w, int32[4] b) => (int32[n, 4] y) "
                     "{ p = MatMul(x, w) y = Add(p, b) }")),
    Case(gemm, "another reader of the product", why="is also read by",
         model=graph("p = MatMul(x, w) a = Add(p, b) y = Mul(a, p)")),
    Case(gemm, "nothing is added", why="the model has no", model=graph("y = MatMul(x, w)")),
    Case(gemm_sum, "there is a third input already", why="expected",
         model=graph("p = Gemm(x, w, b) y = Add(p, z)", "(float[n, 3] x, float[n, 4] z) => (float[n, 4] y)")),
    Case(gemm_sum, "a tensor that adds an axis", why="may broadcast the product",
         model=graph("p = Gemm(x, w) y = Add(p, z)", "(float[n, 3] x, float[1, n, 4] z) => (float[1, n, 4] y)")),
    Case(gemm_sum, "a tensor with more rows than the transposed product", why="may broadcast the product",
         model=graph("p = Gemm<transA = 1>(x, w) y = Add(p, z)",
                     "(float[3, 1] x, float[3, 4] z) => (float[3, 4] y)")),
    Case(gemm_sum, "another reader of the product", why="is also read by",
         model=graph("p = Gemm(x, w) a = Add(p, b) y = Mul(a, p)")),
    Case(gemm_transposes, "constant weights on the right, the result transposed", why="constant weights on the right",
         model=graph("p = Gemm(x, w, b) y = Transpose(p)", "(float[n, 3] x) => (float[4, n] y)")),
    Case(gemm_transposes, "the result with a bias that is no constant", why="must be a constant",
         model=graph("p = Gemm(x, v, z) y = Transpose(p)",
                     "(float[n, 3] x, float[3, 4] v, float[n, 4] z) => (float[4, n] y)")),
    Case(gemm_transposes, "another reader of the result", why="is also read by",
         model=graph("p = Gemm(x, v) y = Transpose(p) z = Relu(p)",
                     "(float[n, 3] x, float[3, 4] v) => (float[4, n] y, float[n, 4] z)")),
    Case(gemm_transposes, "a Transpose that has no effect", why="expected",
         model=graph("t = Transpose<perm = [0, 1]>(x) y = Gemm(t, w)")),
    Case(gemm, "before opset 7 a sum does not spread", why="needs opset 7",
         model=graph("p = MatMul(x, w) y = Add(p, z)", "(float[n, 3] x, float[n, 4] z) => (float[n, 4] y)",
                     header='<ir_version: 3, opset_import: ["" : 6]> agraph ')),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_there_and_back():
    """Transposed weights go back as a constant, not as a node."""
    made, _ = surgeon.rewrite(FIRES[6].model, gemm)
    (node,) = made.graph.node
    assert {item.name: item.i for item in node.attribute if item.i} == {"transB": 1}
    back, report = surgeon.rewrite(made, gemm, target="decomposed", check="both")
    assert report.outcome == "proved"
    assert [node.op_type for node in back.graph.node] == ["MatMul", "Add"]
    shapes = {item.name: tuple(item.dims) for item in back.graph.initializer}
    assert shapes[back.graph.node[0].input[1]] == (3, 4)
    assert "wt" not in shapes
