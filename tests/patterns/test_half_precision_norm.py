"""half_precision_norm: norms in float32 between Casts of half precision, what does not match and why."""

import warnings

import pytest
from surgeon.patterns.norms.half_precision_norm import half_precision_norm, half_precision_norm_rounded
from surgeon.patterns.norms.layer_norm import layer_norm
from surgeon.patterns.norms.skip_layer_norm import skip_layer_norm

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = (
    "<float[4] w = {0.5, 1.25, 1, 2}, float[4] o = {1, 0.125, -0.5, 0}, float[4] fine = {1.0001, 1, 1, 1}, "
    "float[4] large = {1e6, 1, 1, 1}, int64[1] last = {-1}, float two = {2}, float tiny = {0.00001}>"
)
HELD = "does not represent its scale"
WIDE, NARROW = "h = Cast<to = 1>(x)", "y = Cast<to = 10>(n)"


def graph(body, inputs="float16[b, s, 4] x", output="float16[b, s, 4] y", opset=17):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output}) {CONSTANTS} {{ {body} }}")


NODE = f"{WIDE} n = LayerNormalization<axis = -1>(h, w, o) {NARROW}"
PARTS = (
    f"{WIDE} m = ReduceMean<axes = [-1]>(h) c = Sub(h, m) p = Pow(c, two) v = ReduceMean<axes = [-1]>(p) "
    f"e = Add(v, tiny) r = Sqrt(e) d = Div(c, r) u = Mul(d, w) n = Add(u, o) {NARROW}"
)
# fmt: off
FIRES = [
    Case(half_precision_norm, "a layer norm, as CLIP's own code has it", graph(NODE)),
    Case(half_precision_norm, "without a bias", graph(NODE.replace(", o)", ")"))),
    Case(half_precision_norm, "bfloat16", graph(
        NODE.replace("to = 10", "to = 16"), "bfloat16[b, s, 4] x", "bfloat16[b, s, 4] y")),
    Case(half_precision_norm, "a root mean square", graph(
        f"{WIDE} n = SimplifiedLayerNormalization<axis = -1, epsilon = 1e-6>(h, w) {NARROW}")),
    Case(half_precision_norm, "a root mean square of ONNX's own", graph(
        f"{WIDE} n = RMSNormalization<axis = -1>(h, w) {NARROW}", opset=23), target="onnx"),
    Case(half_precision_norm, "a Cast that others read", graph(
        f"{NODE} z = Neg(h)", output="float16[b, s, 4] y, float[b, s, 4] z")),
    Case([half_precision_norm, layer_norm], "in parts", graph(PARTS)),
    Case([half_precision_norm, skip_layer_norm], "of a residual", graph(
        f"x = Add(a, c) {NODE}", "float16[b, s, 4] a, float16[b, s, 4] c")),
    Case(half_precision_norm_rounded, "a scale of Gemma's", graph(
        f"{WIDE} n = SimplifiedLayerNormalization<axis = -1, epsilon = 1e-6>(h, fine) {NARROW}")),
    Case(half_precision_norm_rounded, "a scale and a bias", graph(NODE.replace("w,", "fine,"))),
]
NEGATIVES = [
    Case(half_precision_norm, "a scale that half precision rounds", graph(NODE.replace("w,", "fine,")), why=HELD),
    Case(half_precision_norm, "a scale beyond half precision", graph(NODE.replace("w,", "large,")), why=HELD),
    Case(half_precision_norm, "a scale that is computed", why=HELD, model=graph(
        NODE.replace("w,", "k,"), "float16[b, s, 4] x, float[4] k")),
    Case(half_precision_norm_rounded, "a scale beyond float16", graph(NODE.replace("w,", "large,")),
         why="outside the range"),
    Case(half_precision_norm_rounded, "a scale that is computed", why="is not constant", model=graph(
        NODE.replace("w,", "k,"), "float16[b, s, 4] x, float[4] k")),
    Case(half_precision_norm_rounded, "bfloat16, which rounds more", why="is not constant", model=graph(
        NODE.replace("to = 10", "to = 16"), "bfloat16[b, s, 4] x", "bfloat16[b, s, 4] y")),
    Case(half_precision_norm, "it goes on in another half precision", why="not cast back", model=graph(
        NODE.replace("to = 10", "to = 16"), output="bfloat16[b, s, 4] y")),
    Case(half_precision_norm, "it comes in float64", why="expected", model=graph(
        NODE.replace("to = 10", "to = 11"), "double[b, s, 4] x", "double[b, s, 4] y")),
    Case(half_precision_norm, "what it makes in float32 is read", why="is also read", model=graph(
        f"{NODE} z = Neg(n)", output="float16[b, s, 4] y, float[b, s, 4] z")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_a_scale_that_is_tried_in_half_precision_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        surgeon.rewrite(graph(NODE.replace("w,", "large,")), half_precision_norm)
