"""What models write multiplied out, with tanh for the sigmoid, or with moments about zero: laws for all rules."""

import pytest
from surgeon.patterns.activations.gelu import gelu, gelu_tanh, quick_gelu
from surgeon.patterns.activations.silu import silu, swish
from surgeon.patterns.norms.instance_norm import instance_norm
from surgeon.patterns.norms.layer_norm import layer_norm
from surgeon.patterns.norms.layer_norm_channels_first import layer_norm_channels_first
from surgeon.patterns.norms.rms_norm import rms_norm

from surgeon.testing import Case, check_fires, check_spares, parse

F32 = "(float[n, 4] x) => (float[n, 4] y)"
HALVES = "float sqrt2 = {1.4142135}, float one = {1}, float half = {0.5}, float two = {2}, float k = {1.702}"
ERF = "d = Div(x, sqrt2) e = Erf(d)"
TANH = (
    "float c = {0.044715}, float k = {0.7978845608}, float k2 = {1.5957691216}, float kc = {0.0356774081}, "
    "float kc2 = {0.0713548163}, float one = {1}, float half = {0.5}, float two = {2}, float three = {3}"
)
CUBIC = "p = Pow(x, three) q = Mul(p, c) s = Add(x, q)"
ROW = "(float[n, 5, 8] x) => (float[n, 5, 8] y)"
FACTORS = (
    "float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] b = {8, 7, 6, 5, 4, 3, 2, 1}, float e = {1e-5}, float zero = {0}, "
    "float two = {2}, float eight = {8}, float nine = {9}"
)
LAST = "axes = [-1], keepdims = 1"
MEANS = f"m = ReduceMean<{LAST}>(x) x2 = Mul(x, x) s2 = ReduceMean<{LAST}>(x2) m2 = Mul(m, m) "
ABOUT_ZERO = MEANS + "v0 = Sub(s2, m2) v = Max(zero, v0) "
ABOUT_MEAN = f"m = ReduceMean<{LAST}>(x) d = Sub(x, m) p = Mul(d, d) v = ReduceMean<{LAST}>(p) "
FLAX = (  # means without their axes, the variance from them, and only then the axes back, as numpy's expand_dims does
    "s1 = ReduceSum<keepdims = 0>(x, a) m0 = Div(s1, eight) x2 = Mul(x, x) s2 = ReduceSum<keepdims = 0>(x2, a) "
    "v2 = Div(s2, eight) m2 = Mul(m0, m0) v0 = Sub(v2, m2) v1 = Max({cut}, v0) {back} ve = Add(v, e) q = Sqrt(ve) "
    "r = Reciprocal(q) f = Mul(r, s) d = Sub(x, m) n = Mul(d, f) y = Add(n, b)"
)
WITH_AXES = (
    FACTORS
    + ", int64[1] a = {-1}, int64[3] wide = {2, 5, 1}, float eighth = {0.125}"
    + ", int64[3] tall = {2, 1, 8}, int64[3] other = {2, 8, 1}"
)
FIXED = "(float[2, 5, 8] x) => (float[2, 5, 8] y)"
SHARED = "s1 = ReduceSum<keepdims = 1>(x, a) m = Mul(s1, eighth) d = Sub(x, m) p = Mul(d, d) "
ROOT = "ve = Add(v, e) q = Sqrt(ve) "


def small(body, constants=HALVES, head=F32):
    return parse(f"{head} <{constants}> {{ {body} }}")


def rows(body, constants=FACTORS, head=ROW, opset=17):
    header = f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> agraph '
    return parse(f"{header}{head} <{constants}> {{ {body} }}")


FIRES = [
    Case(gelu, "x/2 + x/2 * erf, the half shared", small(f"h = Mul(x, half) {ERF} m = Mul(h, e) y = Add(h, m)")),
    Case(
        gelu,
        "x/2 + x/2 * erf, two halves",
        small(f"h = Mul(x, half) {ERF} i = Mul(half, x) m = Mul(i, e) y = Add(h, m)"),
    ),
    Case(gelu, "x * erf / 2 + x/2", small(f"h = Div(x, two) {ERF} i = Mul(e, x) m = Mul(i, half) y = Add(m, h)")),
    Case(gelu, "(x + x * erf) / 2", small(f"{ERF} m = Mul(x, e) s = Add(x, m) y = Mul(s, half)")),
    Case(gelu, "x * (1/2 + erf/2)", small(f"{ERF} m = Mul(half, e) s = Add(half, m) y = Mul(s, x)")),
    Case(gelu, "through Identity", small(f"{ERF} m = Mul(x, e) i = Identity(m) s = Add(x, i) y = Mul(s, half)")),
    Case(gelu_tanh, "x * sigmoid(2 * ...)", small(f"{CUBIC} t = Mul(s, k2) g = Sigmoid(t) y = Mul(x, g)", TANH)),
    Case(
        gelu_tanh,
        "x * sigmoid(2 * (...))",
        small(f"{CUBIC} t = Mul(s, k) u = Mul(t, two) g = Sigmoid(u) y = Mul(x, g)", TANH),
    ),
    Case(
        gelu_tanh,
        "sqrt(2/pi) multiplied out",
        small(
            "p = Pow(x, three) q = Mul(p, kc) i = Mul(x, k) s = Add(i, q) t = Tanh(s) a = Add(t, one) h = Mul(x, half) "
            "y = Mul(h, a)",
            TANH,
        ),
    ),
    Case(
        gelu_tanh,
        "x * (sqrt(2/pi) + c * x * x), as apex has it",
        small(
            "x2 = Mul(x, x) q = Mul(x2, kc) s = Add(k, q) i = Mul(x, s) t = Tanh(i) a = Add(t, one) h = Mul(x, half) "
            "y = Mul(h, a)",
            TANH,
        ),
    ),
    Case(
        gelu_tanh,
        "the same, and x/2 + x/2 * tanh",
        small(
            "x2 = Mul(x, x) q = Mul(x2, kc) s = Add(k, q) i = Mul(x, s) t = Tanh(i) h = Mul(x, half) a = Mul(t, h) "
            "y = Add(h, a)",
            TANH,
        ),
    ),
    Case(
        gelu_tanh,
        "the same by a sigmoid",
        small("x2 = Mul(x, x) q = Mul(x2, kc2) s = Add(k2, q) i = Mul(x, s) g = Sigmoid(i) y = Mul(x, g)", TANH),
    ),
    Case(
        quick_gelu,
        "the sigmoid as (1 + tanh) / 2",
        small(
            "z = Mul(x, z0) t = Tanh(z) a = Add(one, t) h = Mul(a, half) y = Mul(x, h)", HALVES + ", float z0 = {0.851}"
        ),
    ),
    Case(
        quick_gelu,
        "x / (1 + exp(-1.702 x))",
        small("z = Mul(x, k) n = Neg(z) t = Exp(n) a = Add(one, t) y = Div(x, a)"),
    ),
    Case(silu, "x/2 + x/2 * tanh(x/2)", small("h = Mul(x, half) t = Tanh(h) m = Mul(h, t) y = Add(h, m)")),
    Case(
        swish,
        "alpha read through tanh",
        small("h = Mul(x, k) t = Tanh(h) a = Add(t, one) m = Mul(x, a) y = Mul(m, half)"),
    ),
    Case(
        layer_norm,
        "flax: E[x^2] - E[x]^2, cut off at zero, scale in the root's factor",
        rows(
            ABOUT_ZERO + "d = Sub(x, m) ve = Add(v, e) q = Sqrt(ve) r = Reciprocal(q) f = Mul(r, s) n = Mul(d, f) "
            "y = Add(n, b)"
        ),
    ),
    Case(
        layer_norm,
        "jax.numpy: E[x^2] - E[x]^2 as it is",
        rows(MEANS + f"v = Sub(s2, m2) {ROOT} d = Sub(x, m) n = Div(d, q) k = Mul(n, s) y = Add(k, b)"),
    ),
    Case(
        layer_norm,
        "the same by Relu, Pow and 1/n",
        rows(
            f"m = ReduceMean<{LAST}>(x) x2 = Pow(x, two) s0 = ReduceSum<keepdims = 1>(x2, a) s2 = Div(s0, eight) "
            f"m2 = Pow(m, two) v0 = Sub(s2, m2) v = Relu(v0) {ROOT} d = Sub(x, m) n = Div(d, q) k = Mul(n, s) "
            "y = Add(k, b)",
            FACTORS + ", int64[1] a = {-1}",
        ),
    ),
    Case(
        layer_norm,
        "ReduceSumSquare of what is centred",
        rows(
            f"m = ReduceMean<{LAST}>(x) d = Sub(x, m) p = ReduceSumSquare<{LAST}>(d) v = Div(p, eight) {ROOT} "
            "n = Div(d, q) k = Mul(n, s) y = Add(k, b)"
        ),
    ),
    Case(
        layer_norm,
        "Keras: x * f + (bias - mean * f)",
        rows(
            ABOUT_MEAN
            + ROOT
            + "r = Reciprocal(q) f = Mul(r, s) i = Mul(x, f) j = Mul(m, f) o = Sub(b, j) y = Add(i, o)"
        ),
    ),
    Case(
        layer_norm,
        "Keras without a bias",
        rows(ABOUT_MEAN + ROOT + "r = Reciprocal(q) f = Mul(r, s) i = Mul(x, f) j = Mul(m, f) y = Sub(i, j)"),
    ),
    Case(
        layer_norm,
        "x / root - mean / root",
        rows(ABOUT_MEAN + ROOT + "i = Div(x, q) j = Div(m, q) n = Sub(i, j) k = Mul(n, s) y = Add(k, b)"),
    ),
    Case(
        layer_norm_channels_first,
        "moments about zero over the channels",
        rows(
            "m = ReduceMean<axes = [1]>(x) x2 = Mul(x, x) s2 = ReduceMean<axes = [1]>(x2) m2 = Mul(m, m) "
            f"v = Sub(s2, m2) {ROOT} d = Sub(x, m) n = Div(d, q) k = Mul(n, w) y = Add(k, o)",
            "float e = {1e-5}, float[3, 1, 1] w = {1, 2, 3}, float[3, 1, 1] o = {3, 2, 1}",
            "(float[n, 3, h, 4] x) => (float[n, 3, h, 4] y)",
        ),
    ),
    Case(
        layer_norm,
        "flax: the axes put back behind the variance",
        rows(FLAX.format(cut="zero", back="m = Unsqueeze(m0, a) v = Unsqueeze(v1, a)"), WITH_AXES),
    ),
    Case(
        layer_norm,
        "flax: the axes put back by Reshape",
        rows(FLAX.format(cut="zero", back="m = Reshape(m0, wide) v = Reshape(v1, wide)"), WITH_AXES, FIXED),
    ),
    Case(
        layer_norm,
        "sums times 1/n",
        rows(
            SHARED + f"s2 = ReduceSum<keepdims = 1>(p, a) v = Mul(eighth, s2) {ROOT} n = Div(d, q) k = Mul(n, s) "
            "y = Add(k, b)",
            WITH_AXES,
        ),
    ),
    Case(
        layer_norm,
        "of a mean over other axes, as ConvNeXt v2 and BEiT pool",
        rows(
            "x = ReduceMean<axes = [2, 3], keepdims = 0>(w) " + ABOUT_MEAN + f"{ROOT} n = Div(d, q) k = Mul(n, s) "
            "y = Add(k, b)",
            head="(float[n, 8, h, 4] w) => (float[n, 8] y)",
        ),
    ),
    Case(
        rms_norm,
        "ReduceSumSquare / n",
        rows(f"p = ReduceSumSquare<{LAST}>(x) v = Div(p, eight) {ROOT} n = Div(x, q) y = Mul(n, s)"),
    ),
    Case(
        instance_norm,
        "moments about zero over the picture",
        target="onnx",
        model=rows(
            "m = ReduceMean<axes = [2, 3]>(x) x2 = Mul(x, x) s2 = ReduceMean<axes = [2, 3]>(x2) m2 = Mul(m, m) "
            f"v = Sub(s2, m2) {ROOT} d = Sub(x, m) n = Div(d, q) k = Mul(n, w) y = Add(k, o)",
            "float e = {1e-5}, float[3, 1, 1] w = {1, 2, 3}, float[3, 1, 1] o = {3, 2, 1}",
            "(float[n, 3, 6, 4] x) => (float[n, 3, 6, 4] y)",
        ),
    ),
]

NEGATIVES = [
    Case(
        gelu,
        "the halves are not equal",
        why="",
        model=small(
            f"h = Mul(x, half) {ERF} i = Mul(x, third) m = Mul(i, e) y = Add(h, m)", HALVES + ", float third = {0.4}"
        ),
    ),
    Case(
        gelu, "less the product, not more", why="", model=small(f"h = Mul(x, half) {ERF} m = Mul(h, e) y = Sub(h, m)")
    ),
    Case(
        gelu,
        "another factor in one of the two",
        why="",
        model=small(
            f"h = Mul(x, half) {ERF} i = Mul(w, half) m = Mul(i, e) y = Add(h, m)",
            head="(float[n, 4] x, float[n, 4] w) => (float[n, 4] y)",
        ),
    ),
    Case(
        gelu,
        "the product is read elsewhere",
        why="",
        model=small(
            f"h = Mul(x, half) {ERF} m = Mul(h, e) y = Add(h, m) z = Neg(m)",
            head="(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)",
        ),
    ),
    Case(
        gelu,
        "one divided by x, the other multiplied",
        why="",
        model=small(f"h = Div(half, x) {ERF} i = Mul(x, half) m = Mul(i, e) y = Add(h, m)"),
    ),
    Case(
        gelu_tanh,
        "a sigmoid of half of it",
        why="",
        model=small(f"{CUBIC} t = Mul(s, k) g = Sigmoid(t) y = Mul(x, g)", TANH),
    ),
    Case(
        gelu_tanh,
        "half a sigmoid",
        why="",
        model=small(f"{CUBIC} t = Mul(s, k2) g = Sigmoid(t) h = Mul(x, half) y = Mul(h, g)", TANH),
    ),
    Case(
        gelu_tanh,
        "another cubic in the bracket",
        why="",
        model=small(
            "x2 = Mul(x, x) q = Mul(x2, c) s = Add(k, q) i = Mul(x, s) t = Tanh(i) a = Add(t, one) "
            "h = Mul(x, half) y = Mul(h, a)",
            TANH,
        ),
    ),
    Case(
        silu,
        "1 - tanh is another sigmoid",
        why="",
        model=small("h = Mul(x, half) t = Tanh(h) a = Sub(one, t) m = Mul(x, a) y = Mul(m, half)"),
    ),
    Case(
        silu,
        "2 + tanh is none",
        why="",
        model=small("h = Mul(x, half) t = Tanh(h) a = Add(two, t) m = Mul(x, a) y = Mul(m, half)"),
    ),
    Case(
        quick_gelu,
        "1 + exp of the other sign",
        why="",
        model=small("z = Mul(x, k) t = Exp(z) a = Add(one, t) y = Div(x, a)"),
    ),
    Case(
        quick_gelu,
        "multiplied by 1 + exp",
        why="",
        model=small("z = Mul(x, k) n = Neg(z) t = Exp(n) a = Add(one, t) y = Mul(x, a)"),
    ),
    Case(
        layer_norm,
        "E[x]^2 - E[x^2]",
        why="",
        model=rows(MEANS + f"v = Sub(m2, s2) {ROOT} d = Sub(x, m) n = Div(d, q) k = Mul(n, s) y = Add(k, b)"),
    ),
    Case(
        layer_norm,
        "E[x^2] alone under the root",
        why="",
        model=rows(MEANS + f"v = Add(s2, m2) {ROOT} d = Sub(x, m) n = Div(d, q) k = Mul(n, s) y = Add(k, b)"),
    ),
    Case(
        layer_norm,
        "the variance cut off at two",
        why="",
        model=rows(
            MEANS + f"v0 = Sub(s2, m2) v = Max(two, v0) {ROOT} d = Sub(x, m) n = Div(d, q) k = Mul(n, s) y = Add(k, b)"
        ),
    ),
    Case(
        layer_norm,
        "a sum of squares divided by another number",
        why="the sum must be divided by 8",
        model=rows(
            f"m = ReduceMean<{LAST}>(x) d = Sub(x, m) p = ReduceSumSquare<{LAST}>(d) v = Div(p, nine) {ROOT} "
            "n = Div(d, q) k = Mul(n, s) y = Add(k, b)"
        ),
    ),
    Case(
        layer_norm,
        "the mean of another axis is taken off",
        why="",
        model=rows(
            ABOUT_MEAN + ROOT + "r = Reciprocal(q) f = Mul(r, s) i = Mul(x, f) l = ReduceMean<axes = [1]>(x) "
            "j = Mul(l, f) o = Sub(b, j) y = Add(i, o)"
        ),
    ),
    Case(
        layer_norm,
        "the mean's factor is another one",
        why="",
        model=rows(
            ABOUT_MEAN + ROOT + "r = Reciprocal(q) f = Mul(r, s) i = Mul(x, f) j = Mul(m, r) o = Sub(b, j) "
            "y = Add(i, o)"
        ),
    ),
    Case(
        layer_norm,
        "the variance put back along another axis",
        why="",
        model=rows(
            FLAX.format(cut="zero", back="m = Reshape(m0, other) v = Reshape(v1, tall)"),
            WITH_AXES,
            "(float[2, 8, 8] x) => (float[2, 8, 8] y)",
        ),
    ),
    Case(
        layer_norm,
        "the flat variance cut off at two",
        why="",
        model=rows(FLAX.format(cut="two", back="m = Unsqueeze(m0, a) v = Unsqueeze(v1, a)"), WITH_AXES),
    ),
    Case(
        layer_norm,
        "times another share",
        why="must be divided by 8",
        model=rows(
            SHARED + f"s2 = ReduceSum<keepdims = 1>(p, a) v = Mul(ninth, s2) {ROOT} n = Div(d, q) k = Mul(n, s) "
            "y = Add(k, b)",
            WITH_AXES + ", float ninth = {0.11111111}",
        ),
    ),
    Case(
        swish,
        "tanh beside another number than one",
        why="",
        model=small("h = Mul(x, k) t = Tanh(h) a = Add(t, two) m = Mul(x, a) y = Mul(m, half)"),
    ),
    Case(
        instance_norm,
        "the square of a mean over other axes",
        why="",
        target="onnx",
        model=rows(
            "m = ReduceMean<axes = [2, 3]>(x) x2 = Mul(x, x) s2 = ReduceMean<axes = [2, 3]>(x2) "
            f"l = ReduceMean<axes = [1]>(x) m2 = Mul(l, l) v = Sub(s2, m2) {ROOT} d = Sub(x, m) n = Div(d, q) "
            "k = Mul(n, w) y = Add(k, o)",
            "float e = {1e-5}, float[3, 1, 1] w = {1, 2, 3}, float[3, 1, 1] o = {3, 2, 1}",
            "(float[n, 3, 6, 4] x) => (float[n, 3, 6, 4] y)",
        ),
    ),
    Case(
        layer_norm_channels_first,
        "a mean over other axes taken off",
        why="",
        model=rows(
            "m = ReduceMean<axes = [1]>(x) x2 = Mul(x, x) s2 = ReduceMean<axes = [1]>(x2) m2 = Mul(m, m) "
            f"v = Sub(m2, s2) {ROOT} d = Sub(x, m) n = Div(d, q) k = Mul(n, w) y = Add(k, o)",
            "float e = {1e-5}, float[3, 1, 1] w = {1, 2, 3}, float[3, 1, 1] o = {3, 2, 1}",
            "(float[n, 3, h, 4] x) => (float[n, 3, h, 4] y)",
        ),
    ),
    Case(
        rms_norm,
        "no division by n",
        why="",
        model=rows(f"p = ReduceSumSquare<{LAST}>(x) {ROOT.replace('v, e', 'p, e')} n = Div(x, q) y = Mul(n, s)"),
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The operation is found in this form, and the result agrees."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """Something near the operation stays as it is, and the report says why."""
    check_spares(case)
