"""Biases of queries, keys and values: what becomes one input of the attention, what does not match and why."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.attention.fused_inputs import qkv_biases

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[b, s, 4] q, float[b, t, 4] k, float[b, t, 4] v) => (float[b, s, 4] y)"
INPUTS = HEAD.replace("v)", "v, float[4] i, float[4] j)")
NODE = "y = com.microsoft.MultiHeadAttention<num_heads = 2>"
NUMBERS = (
    "float[4] bq = {1, 2, 3, 4}, float[4] bk = {0.5, 1, -1, 2}, float[4] bv = {5, 6, 7, 8}, float[1] one = {1}, "
    "float[1, 4] row = {1, 2, 3, 4}, float[8] wide = {1, 2, 3, 4, 5, 6, 7, 8}"
)
SUMS = "a = Add(q, bq) c = Add(bk, k) d = Add(v, bv)"


def graph(body, head=HEAD):
    return parse(f"{head} <{NUMBERS}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(qkv_biases, "three biases", graph(f"{SUMS} {NODE}(a, c, d)"), ep="cuda"),
    Case(qkv_biases, "a bias of the queries alone", graph(f"a = Add(q, bq) {NODE}(a, k, v)"), ep="cuda"),
    Case(qkv_biases, "no bias of the keys", graph(f"a = Add(q, bq) d = Add(v, bv) {NODE}(a, k, d)"), ep="cuda"),
    Case(qkv_biases, "values of another size", ep="cuda",
         model=graph(f"{SUMS.replace('bv', 'wide')} {NODE}(a, c, d)",
                     HEAD.replace("4] v", "8] v").replace("4] y", "8] y"))),
    Case(qkv_biases, "masks and a scale", ep="cuda",
         model=graph(f"{SUMS} {NODE.replace('= 2', '= 2, scale = 0.7')}(a, c, d, , m, n)",
                     HEAD.replace("v)", "v, int32[b, t] m, float[1, 1, s, t] n)"))),
    Case(qkv_biases, "two biases that are inputs", ep="cuda",
         model=graph(f"a = Add(q, i) d = Add(v, j) {NODE}(a, k, d)", INPUTS)),
    Case(qkv_biases, "one bias that is an input, and a constant one", ep="cuda",
         model=graph(f"a = Add(q, i) d = Add(v, bv) {NODE}(a, k, d)", INPUTS)),
]
NEGATIVES = [
    Case(qkv_biases, "on a CPU", why="only the execution provider cuda", model=graph(f"{SUMS} {NODE}(a, c, d)")),
    Case(qkv_biases, "no bias", why="neither queries nor keys nor values", ep="cuda", model=graph(f"{NODE}(q, k, v)")),
    Case(qkv_biases, "one bias that is an input", why="would replace the only Add", ep="cuda",
         model=graph(f"a = Add(q, i) {NODE}(a, k, v)", INPUTS)),
    Case(qkv_biases, "a bias already", why="", ep="cuda",
         model=graph(f"{SUMS} {NODE}(a, c, d, n)", HEAD.replace("v)", "v, float[12] n)"))),
    Case(qkv_biases, "keys and values as heads", why="4 axes", ep="cuda",
         model=graph(f"a = Add(q, bq) {NODE}(a, k, v)", HEAD.replace("[b, t, 4]", "[b, 2, t, 2]"))),
    Case(qkv_biases, "a sum that is read again", why="neither queries nor keys nor values", ep="cuda",
         model=graph(f"a = Add(q, bq) {NODE}(a, k, v) z = Neg(a)", HEAD.replace("4] y", "4] y, float[b, s, 4] z"))),
    Case(qkv_biases, "one number", why="the columns of q_bias is 1", ep="cuda",
         model=graph(f"a = Add(q, one) {NODE}(a, k, v)")),
    Case(qkv_biases, "a residual", why="q_bias has 3 axes", ep="cuda",
         model=graph(f"a = Add(q, n) {NODE}(a, k, v)", HEAD.replace("v)", "v, float[b, s, 4] n)"))),
    Case(qkv_biases, "a past", why="expected", ep="cuda",
         model=graph(f"{SUMS} {NODE.replace('y', 'y, nk, nv')}(a, c, d, , , , pk, pv)",
                     HEAD.replace("v)", "v, float[b, 2, p, 2] pk, float[b, 2, p, 2] pv)")
                     .replace("4] y", "4] y, float[b, 2, u, 2] nk, float[b, 2, u, 2] nv"))),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_constant_biases_become_one_constant():
    made, _ = surgeon.rewrite(graph(f"a = Add(q, bq) d = Add(v, bv) {NODE}(a, k, d)"), qkv_biases, ep="cuda")
    (node,) = made.graph.node
    found = {item.name: numpy_helper.to_array(item) for item in made.graph.initializer}
    np.testing.assert_array_equal(found[node.input[3]], [1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8])
