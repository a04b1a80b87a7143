"""A residual and the root mean square normalisation behind it: what is fused, what does not match and why."""

import pytest
from surgeon.patterns.norms.rms_norm import rms_norm
from surgeon.patterns.norms.skip_rms_norm import skip_rms_norm

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, s, 4] x, float[n, s, 4] z) => (float[n, s, 4] y)"
BOTH = HEAD.replace("float[n, s, 4] y", "float[n, s, 4] y, float[n, s, 4] r")
WEIGHTS = "<float[4] w = {1.5, 0.5, -1.0, 2.0}, float[4] k = {1.0, 2.0, 3.0, 4.0}>"
NORM = "y = SimplifiedLayerNormalization<epsilon = 1e-6>(t, w)"
STANDARD = "y = RMSNormalization<epsilon = 1e-6>(t, w)"
NODE = "com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 1e-6>"
OPSET_23 = '<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]> agraph '


def graph(body, head=HEAD, weights=WEIGHTS, header=""):
    return parse(f"{header}{head} {weights} {{ {body} }}")


def half(text):
    """The same in float16: ONNX text gives its numbers as bits, here of 1 and 0.5."""
    return graph(text, HEAD.replace("float[", "float16["), "<float16[4] w = {15360, 14336, 15360, 14336}>")


# fmt: off
FIRES = [
    Case(skip_rms_norm, "a sum and ONNX Runtime's node", graph(f"t = Add(x, z) {NORM}")),
    Case(skip_rms_norm, "a sum and the standard's node", graph(f"t = Add(x, z) {STANDARD}", header=OPSET_23)),
    Case(skip_rms_norm, "a linear layer's bias", graph(f"o = Add(x, k) t = Add(z, o) {NORM}")),
    Case(skip_rms_norm, "the sum is read again", graph(f"t = Add(x, z) {NORM} r = Neg(t)", BOTH)),
    Case(skip_rms_norm, "a Cast that changes nothing, read by the normalisation and by the next sum",
         graph("t = Add(x, z) c = Cast<to = 1>(t) y = SimplifiedLayerNormalization<epsilon = 1e-6>(c, w) r = Neg(c)",
               BOTH)),
    Case(skip_rms_norm, "two axes", graph(f"t = Add(x, z) {NORM}", HEAD.replace("n, s, 4", "n, 4"))),
    Case(skip_rms_norm, "float16", half(f"t = Add(x, z) {NORM}")),
    Case(skip_rms_norm, "a bias in front of the node", graph(f"a = Add(x, k) y = {NODE}(z, a, w)")),
    Case(skip_rms_norm, "a residual without a batch, and the scale is an input",
         graph(f"t = Add(z, x) {NORM}", "(float[n, s, 4] x, float[s, 4] z, float[4] w) => (float[n, s, 4] y)", "")),
    Case([rms_norm, skip_rms_norm], "behind the rule rms_norm", model=graph(
        "t = Add(x, z) q = Pow(t, two) v = ReduceMean<axes = [-1]>(q) e = Add(v, eps) s = Sqrt(e) d = Div(t, s) "
        "y = Mul(w, d)", weights=WEIGHTS.replace("<", "<float two = {2.0}, float eps = {1e-6}, "))),
    Case([rms_norm, skip_rms_norm], "behind the rule rms_norm, which narrows a weight", model=graph(
        "t = Add(x, z) c = Cast<to = 1>(t) q = Mul(c, c) v = ReduceMean<axes = [-1]>(q) e = Add(v, eps) s = Sqrt(e) "
        "d = Div(c, s) f = Mul(d, w) y = Cast<to = 10>(f)", HEAD.replace("float[", "float16["),
        WEIGHTS.replace("<", "<float eps = {1e-6}, "))),
    Case(skip_rms_norm, "back to primitives", graph(f"y = {NODE}(x, z, w)"), target="decomposed"),
    Case(skip_rms_norm, "back to primitives, with a bias", graph(f"y = {NODE}(x, z, w, k)"), target="decomposed"),
    Case(skip_rms_norm, "back to primitives, with the sum", graph(f"y, a, c, t = {NODE}(x, z, w) r = Neg(t)", BOTH),
         target="decomposed"),
    Case(skip_rms_norm, "back to primitives in float16", half(f"y = {NODE}(x, z, w)"), target="decomposed"),
    Case(skip_rms_norm, "back to primitives, where the summands cancel and epsilon is the least",
         graph("y = com.microsoft.SkipSimplifiedLayerNormalization(x, z, w, k)"), target="decomposed"),
]
NEGATIVES = [
    Case(skip_rms_norm, "a summand is broadcast along the rows", why="the same known shape",
         model=graph(f"t = Add(x, z) {NORM}", HEAD.replace("float[n, s, 4] z", "float[n, 1, 4] z"))),
    Case(skip_rms_norm, "four axes", why="two or three axes",
         model=graph(f"t = Add(x, z) {NORM}", HEAD.replace("n, s, 4", "n, h, s, 4"))),
    Case(skip_rms_norm, "a scale over two axes", why="axis",
         model=graph("t = Add(x, z) y = RMSNormalization<epsilon = 1e-6, axis = 1>(t, w)",
                     HEAD.replace("n, s, 4", "n, 1, 4"), "<float[1, 4] w = {1, 2, 3, 4}>", OPSET_23)),
    Case(skip_rms_norm, "a product", why="", model=graph(f"t = Mul(x, z) {NORM}")),
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


def test_the_sum_is_the_fourth_output():
    """What read the sum reads the node's fourth output, and the residual is the second input."""
    made, _ = surgeon.rewrite(graph(f"t = Add(x, z) {NORM} r = Neg(t)", BOTH), skip_rms_norm)
    fused, reader = made.graph.node
    assert list(fused.input) == ["x", "z", "w"]
    assert fused.output[3] == reader.input[0]
