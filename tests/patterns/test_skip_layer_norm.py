"""A residual and the layer normalisation behind it: what is fused, what does not match and why."""

import onnx
import pytest
from surgeon.patterns.norms.layer_norm import layer_norm
from surgeon.patterns.norms.skip_layer_norm import skip_layer_norm

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, s, 4] x, float[n, s, 4] z) => (float[n, s, 4] y)"
WEIGHTS = "<float[4] w = {1.5, 0.5, -1.0, 2.0}, float[4] b = {0.1, 0.2, 0.3, 0.4}, float[4] k = {1, 2, 3, 4}>"
NORM = "y = LayerNormalization<epsilon = 1e-6>(t, w, b)"
DECOMPOSED = """t = Add(x, z) m = ReduceMean<axes = [-1]>(t) c = Sub(t, m) q = Pow(c, two)
    v = ReduceMean<axes = [-1]>(q) e = Add(v, eps) s = Sqrt(e) d = Div(c, s) f = Mul(d, w) y = Add(f, b)"""


def graph(body, head=HEAD, weights=WEIGHTS):
    return parse(f"{head} {weights} {{ {body} }}")


def half(text):
    """The same in float16: ONNX text gives its numbers as bits, here of 1 and 0.5."""
    bits = "<float16[4] w = {15360, 14336, 15360, 14336}, float16[4] b = {14336, 15360, 14336, 15360}>"
    return graph(text, HEAD.replace("float[", "float16["), bits)


BOTH = HEAD.replace("float[n, s, 4] y", "float[n, s, 4] y, float[n, s, 4] r")
NODE = "com.microsoft.SkipLayerNormalization<epsilon = 1e-6>"

# fmt: off
FIRES = [
    Case(skip_layer_norm, "a sum and one node", graph(f"t = Add(x, z) {NORM}")),
    Case(skip_layer_norm, "a linear layer's bias", graph(f"o = Add(x, k) t = Add(o, z) {NORM}")),
    Case(skip_layer_norm, "the bias in front, the residual first", graph(f"o = Add(k, x) t = Add(z, o) {NORM}")),
    Case(skip_layer_norm, "the sum is read again", graph(f"t = Add(x, z) {NORM} r = Neg(t)", BOTH)),
    Case(skip_layer_norm, "the sum with a bias is an output",
         graph(f"o = Add(x, k) t = Add(o, z) {NORM} r = Neg(t)", BOTH)),
    Case(skip_layer_norm, "what the bias makes is read again: no bias then",
         graph(f"o = Add(x, k) t = Add(o, z) {NORM} r = Neg(o)", BOTH)),
    Case(skip_layer_norm, "two axes", graph(f"t = Add(x, z) {NORM}", HEAD.replace("n, s, 4", "n, 4"))),
    Case(skip_layer_norm, "axis 2 of three",
         graph("t = Add(x, z) y = LayerNormalization<epsilon = 1e-6, axis = 2>(t, w, b)")),
    Case(skip_layer_norm, "no bias of the normalisation",
         graph("t = Add(x, z) y = LayerNormalization<epsilon = 1e-6>(t, w)")),
    Case(skip_layer_norm, "float16", half(f"t = Add(x, z) {NORM}")),
    Case(skip_layer_norm, "a bias in front of the node", graph(f"a = Add(x, k) y = {NODE}(a, z, w, b)")),
    Case(skip_layer_norm, "a bias in front of the node's second input, and the sum is read again",
         graph(f"a = Add(k, z) y, m, v, t = {NODE}(x, a, w, b) r = Neg(t)", BOTH)),
    Case(skip_layer_norm, "one residual for the whole batch",
         graph(f"t = Add(x, z) {NORM}", HEAD.replace("float[n, s, 4] z", "float[1, s, 4] z"))),
    Case(skip_layer_norm, "a residual without a batch, first, with a bias, and the sum is read again",
         graph(f"o = Add(x, k) t = Add(z, o) {NORM} r = Neg(t)", BOTH.replace("float[n, s, 4] z", "float[s, 4] z"))),
    Case(skip_layer_norm, "scale, shift and bias are inputs",
         graph(f"o = Add(x, k) t = Add(o, z) {NORM}",
               HEAD.replace("z)", "z, float[4] w, float[4] b, float[4] k)"), "")),
    Case([layer_norm, skip_layer_norm], "behind the rule layer_norm", model=graph(
        DECOMPOSED, HEAD, WEIGHTS.replace("<", "<float two = {2.0}, float eps = {1e-6}, "))),
    Case(skip_layer_norm, "back to primitives", graph(f"y = {NODE}(x, z, w, b)"), target="decomposed"),
    Case(skip_layer_norm, "back to primitives, with a bias", graph(f"y = {NODE}(x, z, w, b, k)"), target="decomposed"),
    Case(skip_layer_norm, "back to primitives, without a bias of its own", graph(f"y = {NODE}(x, z, w)"),
         target="decomposed"),
    Case(skip_layer_norm, "back to primitives, with the sum",
         graph(f"y, a, c, t = {NODE}(x, z, w, b) r = Neg(t)", BOTH), target="decomposed"),
    Case(skip_layer_norm, "back to primitives in float16", half(f"y = {NODE}(x, z, w, b)"), target="decomposed"),
    Case(skip_layer_norm, "back to primitives, where the summands cancel and epsilon is the least",
         graph("y = com.microsoft.SkipLayerNormalization(x, z, w, b, k)"), target="decomposed"),
]
NEGATIVES = [
    Case(skip_layer_norm, "a negative epsilon", why="support a negative epsilon",
         model=graph("t = Add(x, z) y = LayerNormalization<epsilon = -1e-6>(t, w, b)")),
    Case(skip_layer_norm, "a summand is broadcast along the rows", why="the same known shape",
         model=graph(f"t = Add(x, z) {NORM}", HEAD.replace("float[n, s, 4] z", "float[n, 1, 4] z"))),
    Case(skip_layer_norm, "a summand of one row", why="the same known shape",
         model=graph(f"t = Add(x, z) {NORM}", "(float[n, 4] x, float[1, 4] z) => (float[n, 4] y)")),
    Case(skip_layer_norm, "a summand may have one row", why="the same known shape",
         model=graph(f"t = Add(x, z) {NORM}", HEAD.replace("float[n, s, 4] z", "float[m, 4] z"))),
    Case(skip_layer_norm, "the second summand has one more axis than a batch", why="the same known shape",
         model=graph(f"t = Add(x, z) {NORM}", "(float[n, s, 4] x, float[1, n, s, 4] z) => (float[1, n, s, 4] y)")),
    Case(skip_layer_norm, "a summand's shape is unknown", why="must be known",
         model=graph(f"u = Reshape(z, i) t = Add(x, u) {NORM}", HEAD.replace("z)", "z, int64[r] i)"))),
    Case(skip_layer_norm, "four axes", why="two or three axes",
         model=graph(f"t = Add(x, z) {NORM}", HEAD.replace("n, s, 4", "n, h, s, 4"))),
    Case(skip_layer_norm, "not the last axis alone", why="axis",
         model=graph("t = Add(x, z) y = LayerNormalization<epsilon = 1e-6, axis = 1>(t, w, b)",
                     HEAD.replace("n, s, 4", "n, 3, 4"),
                     "<float[3, 4] w = {1,1,1,1,1,1,1,1,1,1,1,1}, float[3, 4] b = {1,1,1,1,1,1,1,1,1,1,1,1}>")),
    Case(skip_layer_norm, "the scale is an input of unknown length", why="vectors over the last axis",
         model=graph(f"t = Add(x, z) {NORM}", HEAD.replace("z)", "z, float[m] w)"), "<float[4] b = {1, 2, 3, 4}>")),
    Case(skip_layer_norm, "a bias alone is no residual", why="the same known shape",
         model=graph(f"t = Add(x, k) {NORM}", "(float[n, s, 4] x) => (float[n, s, 4] y)")),
    Case(skip_layer_norm, "a bias in front of a node that has one", why="",
         model=graph(f"a = Add(x, k) y = {NODE}(a, z, w, b, k)")),
    Case(skip_layer_norm, "a node whose first input has no batch", why="the same known shape",
         model=graph(f"a = Add(z, k) y = {NODE}(x, a, w, b)", "(float[s, 4] x, float[n, s, 4] z) => (float[s, 4] y)")),
    Case(skip_layer_norm, "a second residual in front of the node", why="vectors over the last axis",
         model=graph(f"a = Add(x, z) y = {NODE}(a, z, w, b)")),
    Case(skip_layer_norm, "a difference", why="", model=graph(f"t = Sub(x, z) {NORM}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The rule fires, nothing else changes, and ONNX Runtime agrees."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """No byte changes, and the report says why."""
    check_spares(case)


def test_the_bias_and_the_sum_go_into_the_node():
    """One node is left of all, with five inputs, and epsilon is written, whose default is another."""
    made, _ = surgeon.rewrite(graph(f"o = Add(x, k) t = Add(o, z) {NORM} r = Neg(t)", BOTH), skip_layer_norm)
    node = made.graph.node[0]
    assert [item.op_type for item in made.graph.node] == ["SkipLayerNormalization", "Neg"]
    assert list(node.input) == ["x", "z", "w", "b", "k"]
    assert node.output[3] == made.graph.node[1].input[0]
    assert onnx.helper.get_node_attr_value(node, "epsilon") == pytest.approx(1e-6)
