"""The layer normalisation rules: what fires and what does not."""

import pytest
from surgeon.patterns.norms.layer_norm import layer_norm
from surgeon.patterns.norms.layer_norm_channels_first import layer_norm_channels_first

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

F32 = "(float[n, 3, 4] x) => (float[n, 3, 4] y)"
FACTORS = "float[4] s = {1, 2, 3, 4}, float[4] b = {4, 3, 2, 1}, float e = {1e-5}, float two = {2}"
ROOT = "ve = Add(v, e) q = Sqrt(ve) n = Div(d, q)"
AFFINE = "k = Mul(n, s) y = Add(k, b)"


def header(opset):
    return f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> agraph '


def graph(body, head=F32, constants=FACTORS, opset=17):
    return parse(f"{header(opset)}{head} <{constants}> {{ {body} }}")


def moments(axes="[-1]", square="Mul(d, d)", keep=1):
    attributes = f"axes = {axes}, keepdims = {keep}"
    return f"m = ReduceMean<{attributes}>(x) d = Sub(x, m) p = {square} v = ReduceMean<{attributes}>(p) "


def by_input(axes="{-1}"):
    return "m = ReduceMean(x, a) d = Sub(x, m) p = Mul(d, d) v = ReduceMean(p, a) ", f"{FACTORS}, int64[1] a = {axes}"


MEAN = moments()
F64, DOUBLES = F32.replace("float", "double"), FACTORS.replace("float", "double").replace("1e-5", "0.1")
HALF = "float16[4] s = {15360, 15360, 15360, 15360}, float16[4] b = {0, 0, 0, 0}"
WIDE = "c = Cast<to = 1>(x) m = ReduceMean<axes = [-1]>(c) d = Sub(c, m) p = Mul(d, d) v = ReduceMean<axes = [-1]>(p) "
H16 = "(float16[n, 4] x) => (float16[n, 4] y)"
TWO_AXES = (
    "float[3, 4] s = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[3, 4] b = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}"
)
PICTURE = "(float[n, 3, h, w] x) => (float[n, 3, h, w] y)"
CHANNELS = "float[3, 1, 1] s = {1, 2, 3}, float[3, 1, 1] b = {1, 2, 3}, float e = {1e-5}"

FIRES = [
    Case(layer_norm, "doubles, by an epsilon that is no float32", graph(f"{MEAN}{ROOT} {AFFINE}", F64, DOUBLES)),
    Case(
        layer_norm,
        "TorchScript below 17: Pow, Div by Sqrt, scale, bias",
        graph(moments(square="Pow(d, two)") + f"{ROOT} {AFFINE}"),
    ),
    Case(
        layer_norm,
        "below opset 17: ONNX Runtime's own op",
        graph(moments(square="Pow(d, two)") + f"{ROOT} {AFFINE}", opset=11),
    ),
    Case(
        layer_norm,
        "scale and bias with axes of one before",
        graph(
            moments() + f"{ROOT} {AFFINE}",
            constants=FACTORS.replace("[4] s", "[1, 1, 4] s").replace("[4] b", "[1, 4] b"),
        ),
    ),
    Case(layer_norm, "axes as an input", graph(by_input()[0] + f"{ROOT} {AFFINE}", constants=by_input()[1], opset=18)),
    Case(layer_norm, "axes from the front", graph(moments("[2]") + f"{ROOT} {AFFINE}")),
    Case(
        layer_norm,
        "Reciprocal of the root",
        graph(MEAN + f"ve = Add(v, e) q = Sqrt(ve) r = Reciprocal(q) n = Mul(d, r) {AFFINE}"),
    ),
    Case(
        layer_norm,
        "one divided by the root",
        graph(
            MEAN + f"ve = Add(e, v) q = Sqrt(ve) r = Div(o, q) n = Mul(r, d) {AFFINE}",
            constants=f"{FACTORS}, float o = {{1}}",
        ),
    ),
    Case(
        layer_norm,
        "Pow by minus one half",
        graph(
            MEAN + f"ve = Add(v, e) r = Pow(ve, h) n = Mul(d, r) {AFFINE}", constants=f"{FACTORS}, float h = {{-0.5}}"
        ),
    ),
    Case(
        layer_norm,
        "Sub computed twice",
        graph(
            "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) d2 = Sub(x, m) p = Mul(d2, d2) "
            "v = ReduceMean<axes = [-1]>(p) "
            f"{ROOT} {AFFINE}"
        ),
    ),
    Case(
        layer_norm,
        "mean computed twice, from either end",
        graph(
            "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) m2 = ReduceMean<axes = [2]>(x) d2 = Sub(x, m2) "
            "p = Mul(d2, d2) "
            f"v = ReduceMean<axes = [2]>(p) {ROOT} {AFFINE}"
        ),
    ),
    Case(
        layer_norm,
        "scaled before it is divided",
        graph(MEAN + "ve = Add(v, e) q = Sqrt(ve) k = Mul(s, d) n = Div(k, q) y = Add(n, b)"),
    ),
    Case(
        layer_norm,
        "dynamo's var: reduced without the axis, which Reshape puts back",
        graph(
            "m = ReduceMean(x, a) d = Sub(x, m) p = Mul(d, d) u = ReduceMean<keepdims = 0>(p, a) v = Reshape(u, t) "
            f"{ROOT} {AFFINE}",
            head="(float[2, 3, 4] x) => (float[2, 3, 4] y)",
            constants=f"{FACTORS}, int64[1] a = {{2}}, int64[3] t = {{2, 3, 1}}",
            opset=18,
        ),
    ),
    Case(layer_norm, "only a scale", graph(MEAN + f"{ROOT} y = Mul(n, s)")),
    Case(layer_norm, "neither", graph(MEAN + "ve = Add(v, e) q = Sqrt(ve) y = Div(d, q)")),
    Case(layer_norm, "a bias alone stays an Add", graph(MEAN + f"{ROOT} y = Add(n, b)")),
    Case(layer_norm, "a scale of another shape stays a Mul", graph(MEAN + f"{ROOT} y = Mul(n, two)")),
    Case(
        layer_norm,
        "two last axes",
        graph(moments("[-2, -1]") + f"{ROOT} {AFFINE}", constants=f"{TWO_AXES}, float e = {{1e-5}}"),
    ),
    Case(
        layer_norm,
        "no epsilon, as exporters leave one of 1e-12",
        graph(MEAN + f"q = Sqrt(v) n = Div(d, q) {AFFINE}"),
        check=False,
    ),
    Case(
        layer_norm,
        "float16 throughout",
        graph(
            "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) p = Mul(d, d) v = ReduceMean<axes = [-1]>(p) "
            + f"{ROOT} {AFFINE}",
            head=H16,
            constants=f"{HALF}, float16 e = {{168}}",
        ),
    ),
    Case(
        layer_norm,
        "float16 in a sandwich of casts, cast back before the scale",
        graph(
            WIDE + f"ve = Add(v, e) q = Sqrt(ve) w = Div(d, q) n = Cast<to = 10>(w) {AFFINE}",
            head=H16,
            constants=f"{HALF}, float e = {{1e-5}}",
        ),
    ),
    Case(
        layer_norm,
        "float16 in a sandwich of casts, scaled in float32: the casts stay",
        graph(WIDE + f"{ROOT} k = Mul(n, s) z = Add(k, b) y = Cast<to = 10>(z)", head=H16),
    ),
    Case(
        layer_norm,
        "float16 by way of float64",
        graph(
            "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) c = Cast<to = 11>(d) p = Pow(c, two) "
            "v = ReduceMean<axes = [-1]>(p) "
            f"ve = Add(v, e) q = Sqrt(ve) w = Div(c, q) n = Cast<to = 10>(w) {AFFINE}",
            head=H16,
            constants=f"{HALF}, double e = {{1e-5}}, double two = {{2}}",
            opset=14,
        ),
    ),
    Case(
        layer_norm,
        "scale and bias computed in the graph",
        graph(
            MEAN + f"{ROOT} {AFFINE}",
            head="(float[n, 3, 4] x, float[4] s, float[4] b) => (float[n, 3, 4] y)",
            constants="float e = {1e-5}",
        ),
    ),
    Case(layer_norm, "to ai.onnx", graph(MEAN + f"{ROOT} {AFFINE}"), target="onnx"),
    Case(
        layer_norm, "back to primitives", graph("y = LayerNormalization<epsilon = 1e-5>(x, s, b)"), target="decomposed"
    ),
    Case(
        layer_norm,
        "back to primitives, two axes, no bias",
        graph("y = LayerNormalization<axis = 1>(x, s)", constants=TWO_AXES),
        target="decomposed",
    ),
    Case(
        layer_norm,
        "back to primitives, float16",
        graph("y = LayerNormalization(x, s, b)", head=H16, constants=HALF),
        target="decomposed",
    ),
    Case(
        layer_norm,
        "back to primitives from ONNX Runtime's own op",
        graph("y = LayerNormalization(x, s, b)", opset=13),
        target="decomposed",
    ),
    Case(
        layer_norm_channels_first,
        "over the channels of a picture",
        graph(moments("[1]") + f"{ROOT} {AFFINE}", head=PICTURE, constants=CHANNELS),
    ),
    Case(
        layer_norm_channels_first,
        "a scale without a bias, as in lucidrains' networks",
        graph(moments("[1]") + f"{ROOT} y = Mul(s, n)", head=PICTURE, constants=CHANNELS),
    ),
    Case(
        layer_norm_channels_first,
        "the scale before the quotient, as Conv-TasNet has it",
        graph(
            moments("[1]") + "a = Add(v, e) q = Sqrt(a) k = Mul(s, d) n = Div(k, q) y = Add(n, b)",
            head=PICTURE,
            constants=CHANNELS,
        ),
    ),
    Case(
        layer_norm_channels_first,
        "of a sequence, below opset 17",
        graph(
            moments("[1]") + f"{ROOT} {AFFINE}",
            head="(float[n, 3, t] x) => (float[n, 3, t] y)",
            constants="float[3, 1] s = {1, 2, 3}, float[1, 3, 1] b = {1, 2, 3}, float e = {1e-5}",
            opset=13,
        ),
    ),
    *(
        Case(
            layer_norm,
            f"the standard's RMSNormalization of what is centred, {name}",
            graph(f"m = ReduceMean(x, a) d = Sub(x, m) {body}", constants=f"{FACTORS}, int64[1] a = {{-1}}", opset=23),
        )
        for name, body in (
            ("with a bias", "k = RMSNormalization<epsilon = 1e-5>(d, s) y = Add(k, b)"),
            ("without", "y = RMSNormalization<epsilon = 1e-5>(d, s)"),
        )
    ),
]

NEGATIVES = [
    Case(
        layer_norm,
        "centred over fewer axes than the mean of squares is taken over",
        why="over the same axes",
        model=graph(
            "m = ReduceMean(x, a) d = Sub(x, m) y = RMSNormalization<epsilon = 1e-5, axis = -2>(d, s)",
            constants="float[3, 4] s = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, int64[1] a = {-1}",
            opset=23,
        ),
    ),
    Case(
        layer_norm,
        "an axis that is not the last",
        why="the axes must be the last ones",
        model=graph(moments("[1]") + "ve = Add(v, e) q = Sqrt(ve) y = Div(d, q)"),
    ),
    Case(
        layer_norm,
        "the whole tensor but the middle axis",
        why="the axes must be the last ones",
        model=graph(moments("[0, 2]") + "ve = Add(v, e) q = Sqrt(ve) y = Div(d, q)"),
    ),
    Case(
        layer_norm,
        "mean and variance over different axes",
        why="",
        model=graph(
            "m = ReduceMean<axes = [1]>(x) d = Sub(x, m) p = Mul(d, d) v = ReduceMean<axes = [2]>(p) "
            "ve = Add(v, e) q = Sqrt(ve) y = Div(d, q)"
        ),
    ),
    Case(
        layer_norm,
        "epsilon outside the root: x / (std + ε)",
        why="",
        model=graph(MEAN + "q = Sqrt(v) ve = Add(q, e) y = Div(d, ve)"),
    ),
    Case(
        layer_norm,
        "divided by the variance, not by its root",
        why="",
        model=graph(MEAN + "ve = Add(v, e) y = Div(d, ve)"),
    ),
    Case(
        layer_norm,
        "the third power",
        why="",
        model=graph(
            moments(square="Pow(d, three)") + "ve = Add(v, e) q = Sqrt(ve) y = Div(d, q)",
            constants=f"{FACTORS}, float three = {{3}}",
        ),
    ),
    Case(
        layer_norm,
        "the unbiased variance",
        why="must be divided by 4",
        model=graph(
            "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) p = Mul(d, d) u = ReduceSum(p, a) v = Div(u, n1) "
            "ve = Add(v, e) q = Sqrt(ve) y = Div(d, q)",
            constants=f"{FACTORS}, int64[1] a = {{-1}}, float n1 = {{3}}",
        ),
    ),
    Case(
        layer_norm,
        "the variance of something else",
        why="",
        model=graph(
            "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) p = Mul(z, z) v = ReduceMean<axes = [-1]>(p) "
            "ve = Add(v, e) q = Sqrt(ve) y = Div(d, q)",
            head="(float[n, 3, 4] x, float[n, 3, 4] z) => (float[n, 3, 4] y)",
        ),
    ),
    Case(
        layer_norm,
        "the deviation is used elsewhere",
        why="",
        model=graph(
            MEAN + "ve = Add(v, e) q = Sqrt(ve) y = Div(d, q)",
            head="(float[n, 3, 4] x) => (float[n, 3, 4] y, float[n, 3, 4] d)",
        ),
    ),
    Case(
        layer_norm,
        "a last axis of unknown size and no scale",
        why="sizes of the axes must be known",
        model=graph(
            MEAN + "ve = Add(v, e) q = Sqrt(ve) y = Div(d, q)", head="(float[n, 3, c] x) => (float[n, 3, c] y)"
        ),
    ),
    Case(
        layer_norm,
        "cast to fewer digits on the way in",
        why="",
        model=graph(
            "c = Cast<to = 10>(x) m = ReduceMean<axes = [-1]>(c) d = Sub(c, m) p = Mul(d, d) "
            "v = ReduceMean<axes = [-1]>(p) ve = Add(v, e) q = Sqrt(ve) w = Div(d, q) o = Cast<to = 1>(w) "
            "y = Mul(o, s) f = Neg(c)",
            head="(float[n, 4] x) => (float[n, 4] y, float16[n, 4] d, float16[n, 4] f)",
            constants="float[4] s = {1, 2, 3, 4}, float16 e = {168}",
        ),
    ),
    Case(
        layer_norm,
        "over all axes, of which none is named",
        why="has no axes",
        model=graph("m = ReduceMean(x) d = Sub(x, m) p = Mul(d, d) v = ReduceMean(p) " + ROOT + " y = Mul(n, s)"),
    ),
    Case(
        layer_norm,
        "back to primitives, a scale that ONNX Runtime broadcasts",
        why="must have the shape of the normalised axes",
        target="decomposed",
        model=graph("y = LayerNormalization(x, s)", constants=TWO_AXES),
    ),
    Case(
        layer_norm_channels_first,
        "an epsilon of four axes beside reductions over others",
        why="",
        model=graph(
            "m = ReduceMean<axes = [1]>(s) d = Sub(x, m) p = Mul(d, d) v = ReduceMean<axes = [1]>(p) "
            + f"{ROOT} {AFFINE}",
            head=PICTURE,
            constants=CHANNELS.replace("float e = {1e-5}", "float[1, 1, 1, 1] e = {1e-5}"),
        ),
    ),
    Case(
        layer_norm,
        "the onnx form needs opset 17",
        why="needs opset 17",
        target="onnx",
        model=graph(MEAN + f"{ROOT} {AFFINE}", opset=13),
    ),
    Case(
        layer_norm_channels_first,
        "scale and bias along the last axis",
        why="run along only the channels",
        model=graph(moments("[1]") + f"{ROOT} {AFFINE}", head="(float[n, 3, h, 4] x) => (float[n, 3, h, 4] y)"),
    ),
    Case(
        layer_norm_channels_first,
        "over the last axis",
        why="",
        model=graph(MEAN + f"{ROOT} {AFFINE}", head="(float[n, 3, h, 4] x) => (float[n, 3, h, 4] y)"),
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The operation is found in this spelling, and the result agrees."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """Something near the operation stays as it is, and the report says why."""
    check_spares(case)


WIDER = F32.replace("=> (float[", "=> (float[1, ")
IN_DOUBLE = (
    "c = Cast<to = 11>(x) m = ReduceMean<axes = [-1]>(c) d = Sub(c, m) p = Mul(d, d) v = ReduceMean<axes = [-1]>(p) "
    "ve = Add(v, e) q = Sqrt(ve) w = Div(d, q) n = Cast<to = 1>(w) "
)


@pytest.mark.parametrize(
    "model",
    [
        graph(f"{MEAN}{ROOT} {AFFINE}", WIDER, FACTORS.replace("[4] b", "[1, 1, 1, 4] b")),
        graph(f"{MEAN}{ROOT} {AFFINE}", WIDER, FACTORS.replace("[4] s", "[1, 1, 1, 4] s")),
        graph(f"{MEAN}{ROOT} k = Mul(s, n) y = Neg(k)", WIDER, FACTORS.replace("[4] s", "[1, 1, 1, 4] s")),
        graph(IN_DOUBLE + AFFINE, constants=FACTORS.replace("float e", "double e")),
        graph(IN_DOUBLE + "y = Mul(n, s)", constants=FACTORS.replace("float e", "double e")),
    ],
    ids=["a wider bias", "a wider scale", "a wider scale and no bias", "float32 in double", "the same without a bias"],
)
def test_what_one_node_does_not_hold_stays_outside_of_it(model):
    """Axes that a factor adds to the result, and double precision between two Casts."""
    made, report = surgeon.rewrite(model, layer_norm)
    assert report.outcome == "proved"
    assert "LayerNormalization" in [node.op_type for node in made.graph.node]
