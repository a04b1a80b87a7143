"""A number on the queries of an attention: what becomes part of the scale, what does not match and why."""

import onnx
import pytest
from surgeon.patterns.attention.fused_inputs import scaled_queries

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[b, s, 8] q, float[b, t, 8] k, float[b, t, 8] v) => (float[b, s, 8] y)"
NODE = "y = com.microsoft.MultiHeadAttention<num_heads = 2>"
CACHED = (
    "(float[b, s, 8] q, float[b, s, 8] k, float[b, s, 8] v, float[b, 2, p, 4] pk, float[b, 2, p, 4] pv) => "
    "(float[b, s, 8] y, float[b, 2, t, 4] nk, float[b, 2, t, 4] nv)"
)
NUMBERS = (
    "float c = {0.3}, float[1, 1, 1] boxed = {-2}, float nothing = {0}, float[8] each = {1, 2, 3, 4, 5, 6, 7, 8}, "
    "float inf = {inf}"
)


def graph(body, head=HEAD):
    return parse(f"{head} <{NUMBERS}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(scaled_queries, "no scale", graph(f"a = Mul(q, c) {NODE}(a, k, v)")),
    Case(scaled_queries, "a scale, and a number with axes",
         graph(f"a = Mul(boxed, q) {NODE.replace('= 2', '= 2, scale = 0.7')}(a, k, v)")),
    Case(scaled_queries, "a quotient", graph(f"a = Div(q, c) {NODE}(a, k, v)")),
    Case(scaled_queries, "a bias of the scores, and the future hidden",
         graph(f"a = Mul(q, c) {NODE.replace('= 2', '= 2, unidirectional = 1')}(a, k, v, , , m)",
               HEAD.replace("v)", "v, float[b, 1, s, t] m)").replace("[b, t, 8]", "[b, s, 8]")
               .replace("s, t] m", "s, s] m"))),
    Case(scaled_queries, "keys as heads",
         graph(f"a = Mul(q, c) {NODE}(a, k, v)", HEAD.replace("[b, t, 8]", "[b, 2, t, 4]"))),
    Case(scaled_queries, "a past",
         graph(f"a = Mul(q, c) {NODE.replace('y', 'y, nk, nv')}(a, k, v, , , , pk, pv)", CACHED)),
]
NEGATIVES = [
    Case(scaled_queries, "a bias of queries, keys and values", why="the pattern leaves it out",
         model=graph(f"a = Mul(q, c) {NODE}(a, k, v, n)", HEAD.replace("v)", "v, float[24] n)"))),
    Case(scaled_queries, "a number for each column", why="",
         model=graph(f"a = Mul(q, each) {NODE}(a, k, v)")),
    Case(scaled_queries, "a number that is an input", why="",
         model=graph(f"a = Mul(q, d) {NODE}(a, k, v)", HEAD.replace("v)", "v, float d)"))),
    Case(scaled_queries, "a scale of zero", why="a scale must be finite",
         model=graph(f"a = Mul(q, nothing) {NODE}(a, k, v)")),
    Case(scaled_queries, "an infinite scale", why="a scale must be finite",
         model=graph(f"a = Mul(q, inf) {NODE}(a, k, v)")),
    Case(scaled_queries, "scaled queries that are read again", why="is also read",
         model=graph(f"a = Mul(q, c) {NODE}(a, k, v) z = Neg(a)", HEAD.replace("8] y", "8] y, float[b, s, 8] z"))),
    Case(scaled_queries, "packed queries, keys and values", why="expected",
         model=graph(f"a = Mul(q, c) {NODE}(a)", "(float[b, s, 2, 3, 4] q) => (float[b, s, 8] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.parametrize(("own", "scale"), [("", 0.15), (", scale = 0.0", 0.15), (", scale = 0.7", 0.21)])
def test_the_scale_is_multiplied(own, scale):
    made, _ = surgeon.rewrite(graph(f"a = Mul(q, c) {NODE.replace('= 2', '= 2' + own)}(a, k, v)"), scaled_queries)
    (node,) = made.graph.node
    assert onnx.helper.get_node_attr_value(node, "scale") == pytest.approx(scale)
