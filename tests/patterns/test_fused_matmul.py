"""fused_matmul: transposes and numbers that ONNX Runtime's product of matrices takes in, and those it does not."""

import pytest
from surgeon.patterns.linear_algebra.fused_matmul import fused_matmul

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 2, s, 8] a, float[n, 2, t, 8] b) => (float[n, 2, s, t] y)"
SWAP = "Transpose<perm = [0, 1, 3, 2]>"
CONSTANTS = (
    "float eighth = {0.125}, float[1] eight = {8}, float third = {0.3333333}, float[8] row = {1, 2, 3, 4, 5, 6, 7, 8}"
)


def graph(body, head=HEAD, constants=CONSTANTS, header=""):
    return parse(f"{header}{head} <{constants}> {{ {body} }}")


def three(first, second, out="[n, p, q]"):
    return f"(float{first} a, float{second} b) => (float{out} y)"


# fmt: off
FIRES = [
    Case(fused_matmul, "the right transposed", graph(f"t = {SWAP}(b) y = MatMul(a, t)")),
    Case(fused_matmul, "the left transposed",
         graph(f"t = {SWAP}(a) y = MatMul(t, b)",
               "(float[n, 2, 8, s] a, float[n, 2, 8, t] b) => (float[n, 2, s, t] y)")),
    Case(fused_matmul, "both, matrices, one without perm",
         graph("t = Transpose(a) u = Transpose<perm = [1, 0]>(b) y = MatMul(t, u)",
               "(float[3, n] a, float[m, 3] b) => (float[n, m] y)", )),
    Case(fused_matmul, "divided behind", graph(f"t = {SWAP}(b) p = MatMul(a, t) y = Div(p, eight)")),
    Case(fused_matmul, "a number on both sides, as attention has it",
         graph(f"c = Mul(a, third) t = {SWAP}(b) d = Mul(t, third) y = MatMul(c, d)")),
    Case(fused_matmul, "a number before the transpose too",
         graph(f"c = Div(a, eight) d = Mul(third, b) t = {SWAP}(d) y = MatMul(c, t)")),
    Case(fused_matmul, "only a number", graph("p = MatMul(a, b) y = Mul(eighth, p)", three("[n, p, r]", "[n, r, q]"))),
    Case(fused_matmul, "the batch moved on the left",
         graph("t = Transpose<perm = [1, 0, 2]>(a) y = MatMul(t, b)", three("[p, n, 4]", "[n, 4, q]"))),
    Case(fused_matmul, "the batch moved on the right, and the last two swapped",
         graph("t = Transpose<perm = [1, 2, 0]>(b) y = MatMul(a, t)", three("[n, p, 4]", "[q, n, 4]"))),
    Case(fused_matmul, "two batches moved, four axes",
         graph("t = Transpose<perm = [1, 2, 0, 3]>(a) u = Transpose<perm = [1, 2, 3, 0]>(b) y = MatMul(t, u)",
               "(float[s, n, 2, 8] a, float[t, n, 2, 8] b) => (float[n, 2, s, t] y)")),
    Case(fused_matmul, "one already fused takes in more",
         graph(f"t = {SWAP}(b) p = com.microsoft.FusedMatMul<alpha = 0.5>(a, t) y = Mul(p, eighth)")),
    Case(fused_matmul, "a double, whose factor float32 holds",
         parse("(double[n, s, 8] a, double[n, t, 8] b) => (double[n, s, t] y) <double eight = {8}> "
               "{ t = Transpose<perm = [0, 2, 1]>(b) p = MatMul(a, t) y = Div(p, eight) }")),
    Case(fused_matmul, "the transposed, which another node reads too",
         graph(f"t = {SWAP}(b) p = MatMul(a, t) s = ReduceSum<keepdims = 0>(t) y = Add(p, s)")),
    Case(fused_matmul, "a number before two products",
         model=graph("c = Mul(a, third) y = MatMul(c, b) z = MatMul(c, d)",
                     "(float[n, p, 4] a, float[n, 4, q] b, float[n, 4, r] d) => (float[n, p, q] y, float[n, p, r] z)")),
    Case(fused_matmul, "a number on the right, which is 1 and has another reader",
         graph("d = Mul(b, one) y = MatMul(a, d) z = Relu(d)",
               "(float[n, p, 4] a, float[n, 4, q] b) => (float[n, p, q] y, float[n, 4, q] z)", "float one = {1}")),
    Case(fused_matmul, "a number behind which another node reads",
         graph("d = Div(b, eight) y = MatMul(a, d) z = Relu(d)",
               "(float[n, p, 4] a, float[n, 4, q] b) => (float[n, p, q] y, float[n, 4, q] z)")),
    Case(fused_matmul, "the product transposed",
         graph("p = MatMul(a, b) y = Transpose<perm = [0, 2, 1]>(p)", three("[n, p, 4]", "[n, 4, q]", "[n, q, p]"))),
    Case(fused_matmul, "the product transposed, matrices, without perm",
         graph("p = MatMul(a, b) y = Transpose(p)", three("[p, 4]", "[4, q]", "[q, p]"))),
    Case(fused_matmul, "the product of a matrix and a batch transposed",
         graph("p = MatMul(a, b) y = Transpose<perm = [0, 2, 1]>(p)", three("[p, 4]", "[n, 4, q]", "[n, q, p]"))),
    Case(fused_matmul, "constant weights on the left, the product transposed",
         graph("p = MatMul(w, b) y = Transpose(p)", "(float[2, n] b) => (float[n, 4] y)",
               "float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}")),
    Case(fused_matmul, "the result of FusedMatMul transposed, its batch moved",
         graph("p = com.microsoft.FusedMatMul<transA = 1, transBatchA = 1, alpha = 0.5>(a, b) "
               "y = Transpose<perm = [0, 2, 1]>(p)", three("[4, n, p]", "[n, 4, q]", "[n, q, p]"))),
    Case(fused_matmul, "a narrowing Cast behind the transpose",
         parse("(float[n, 4, p] a, float16[n, 4, q] b) => (float16[n, p, q] y) "
               "{ t = Transpose<perm = [0, 2, 1]>(a) c = Cast<to = 10>(t) y = MatMul(c, b) }")),
    Case(fused_matmul, "integers, transposed and cast on the right",
         parse("(float[n, p, 4] a, int64[n, q, 4] b) => (float[n, p, q] y) "
               "{ t = Transpose<perm = [0, 2, 1]>(b) c = Cast<to = 1>(t) y = MatMul(a, c) }")),
    Case(fused_matmul, "back", target="decomposed",
         model=graph("y = com.microsoft.FusedMatMul<alpha = 0.125, transB = 1>(a, b)")),
    Case(fused_matmul, "back with the batch moved", target="decomposed",
         model=graph("y = com.microsoft.FusedMatMul<transA = 1, transBatchA = 1>(a, b)",
                     three("[4, n, p]", "[n, 4, q]"))),
]
NEGATIVES = [
    Case(fused_matmul, "divided by infinity", why="alpha would be 0",
         model=graph("p = MatMul(a, b) n = Neg(eighth) i = Sub(eighth, eighth) k = Div(eighth, i) y = Div(p, k)",
                     three("[n, p, 8]", "[n, 8, q]"))),
    Case(fused_matmul, "nothing to sum up", why="an empty factor",
         model=graph("t = Transpose<perm = [0, 2, 1]>(a) y = MatMul(t, b)", three("[n, 0, p]", "[n, 0, q]"))),
    Case(fused_matmul, "heads split off", why="can only swap",
         model=graph("t = Transpose<perm = [0, 2, 1, 3]>(a) y = MatMul(t, b)",
                     "(float[n, s, 2, 8] a, float[n, 2, 8, t] b) => (float[n, 2, s, t] y)")),
    Case(fused_matmul, "a batch moved beside a matrix", why="the same rank",
         model=graph("t = Transpose<perm = [1, 0, 2]>(a) y = MatMul(t, b)", three("[p, n, 4]", "[4, q]"))),
    Case(fused_matmul, "beside a vector", why="a vector",
         model=graph("t = Transpose<perm = [0, 2, 1]>(a) y = MatMul(t, b)", three("[n, 4, p]", "[4]", "[n, p]"))),
    Case(fused_matmul, "a number for each column", why="found",
         model=graph("c = Mul(a, row) y = MatMul(c, b)", three("[n, p, 8]", "[n, 8, q]"))),
    Case(fused_matmul, "a double, whose factor float32 does not hold", why="too coarse",
         model=parse("(double[n, s, 8] a, double[n, 8, t] b) => (double[n, s, t] y) "
                     "<double third = {0.3333333333333333}> { p = MatMul(a, b) y = Mul(p, third) }")),
    Case(fused_matmul, "an unknown rank", why="the rank of a factor is unknown",
         model=graph("a = my.Unknown(z) p = MatMul(a, b) y = Mul(p, eighth)",
                     "(float[n, 4, q] z, float[n, q, 4] b) => (float[n, 4, 4] y)",
                     header='<ir_version: 8, opset_import: ["" : 17, "my" : 1]> agraph ')),
    Case(fused_matmul, "another reader of the cast tensor", why="is also read by",
         model=parse("(float[n, 4, p] a, float16[n, 4, q] b) => (float16[n, p, q] y, float16 s) "
                     "{ t = Transpose<perm = [0, 2, 1]>(a) c = Cast<to = 10>(t) y = MatMul(c, b) "
                     "s = ReduceMax<keepdims = 0>(c) }")),
    Case(fused_matmul, "another reader of the product", why="is also read by",
         model=graph("p = MatMul(a, b) y = Transpose<perm = [0, 2, 1]>(p) z = Relu(p)",
                     "(float[n, p, 4] a, float[n, 4, q] b) => (float[n, q, p] y, float[n, p, q] z)")),
    Case(fused_matmul, "a product whose batch moves", why="must swap its last two axes",
         model=graph("p = MatMul(a, b) y = Transpose(p)", three("[n, p, 4]", "[n, 4, q]", "[q, p, n]"))),
    Case(fused_matmul, "a transposed product with constant weights on the right", why="constant weights on the right",
         model=graph("p = MatMul(a, w) y = Transpose(p)", "(float[n, 2] a) => (float[4, n] y)",
                     "float[2, 4] w = {1, 2, 3, 4, 5, 6, 7, 8}")),
    Case(fused_matmul, "cast to integers", why="supports only floats",
         model=parse("(float[n, 4, p] a, int32[n, 4, q] b) => (int32[n, p, q] y) "
                     "{ t = Transpose<perm = [0, 2, 1]>(a) c = Cast<to = 6>(t) y = MatMul(c, b) }")),
    Case(fused_matmul, "integers", why="supports only floats",
         model=parse("(int32[n, 3] a, int32[m, 3] b) => (int32[n, m] y) "
                     "{ t = Transpose<perm = [1, 0]>(b) y = MatMul(a, t) }")),
    Case(fused_matmul, "the standard has no such op", why="the model has no com.microsoft::FusedMatMul", target="onnx",
         model=graph(f"t = {SWAP}(b) y = MatMul(a, t)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_numbers_become_one():
    made, _ = surgeon.rewrite(FIRES[5].model, fused_matmul)
    (node,) = made.graph.node
    held = {item.name: item.f or item.i for item in node.attribute}
    assert held["transB"] == 1
    assert held["alpha"] == pytest.approx(0.125 / 3)


def test_a_transpose_taken_back_leaves_a_plain_product():
    model = graph(
        f"t = {SWAP}(b) y = com.microsoft.FusedMatMul<transB = 1>(a, t)", HEAD.replace("[n, 2, t, 8]", "[n, 2, 8, t]")
    )
    made, report = surgeon.rewrite(model, fused_matmul, check="both")
    assert [node.op_type for node in made.graph.node] == ["MatMul"]
    assert report.outcome == "proved"
