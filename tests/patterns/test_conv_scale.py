"""Constants before and after a convolution: what is folded into weights and bias, and what does not match."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.weight_folding.conv_scale import conv_scale, scale_before_conv

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = (
    "float[2, 1, 2, 2] w = {1, -2, 3, 0.5, 2, 0.25, -1, 1}, float[2] b = {0.5, -1}, float[2, 1, 1] k = {3, 0.5}, "
    "float[1, 2, 1, 1] k4 = {-2, 7}, float half = {0.5}, float[1] two = {2}, float zero = {0}, "
    "float[1, 2, 3, 3] map = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, float[3] row = {1, 2, 3}, "
    "float[2] vector = {1, 2}, float[1, 1, 2, 1, 1] deep = {1, 2}"
)


def graph(body, head="(float[n, 1, h, v] x) => (float[n, 2, p, q] y)", more="", header=""):
    return parse(f"{header}{head} <{CONSTANTS}{more}> {{ {body} }}")


V = ", float[2, 2, 2, 2] v = {1, -2, 3, 0.5, 2, 0.25, -1, 1, 0.5, 4, -3, 2, 1, 1, 2, -2}"
WIDE = "(float[n, 2, h, v] x) => (float[n, 2, p, q] y)"


def wide(body, head=WIDE):
    """A graph whose input has two channels, and weights v for it."""
    return graph(body, head, V)


def old(version):
    return f'<ir_version: 6, opset_import: ["" : {version}]> agraph '


# fmt: off
FIRES = [
    Case(conv_scale, "times a number for each channel", graph("c = Conv(x, w, b) y = Mul(c, k)")),
    Case(conv_scale, "times one number", graph("c = Conv(x, w, b) y = Mul(half, c)")),
    Case(conv_scale, "times one of shape [1]", graph("c = Conv(x, w) y = Mul(c, two)")),
    Case(conv_scale, "over a number for each channel", graph("c = Conv(x, w, b) y = Div(c, k4)")),
    Case(conv_scale, "over one number", graph("c = Conv(x, w, b) y = Div(c, half)")),
    Case(conv_scale, "plus a number for each channel", graph("c = Conv(x, w) y = Add(k, c)")),
    Case(conv_scale, "plus one number", graph("c = Conv(x, w, b) y = Add(c, half)")),
    Case(conv_scale, "less a number for each channel", graph("c = Conv(x, w, b) y = Sub(c, k4)")),
    Case(conv_scale, "a scale and a shift: one region", graph("c = Conv(x, w, b) m = Mul(c, k) y = Add(m, k4)")),
    Case(conv_scale, "four of them",
         graph("c = Conv(x, w) m = Mul(c, k) a = Add(m, k4) d = Div(a, two) y = Sub(d, half)")),
    Case(conv_scale, "attributes stay",
         graph("c = Conv<pads = [1, 0, 1, 0], strides = [2, 1]>(x, w, b) y = Mul(c, k)")),
    Case(conv_scale, "opset 9", graph("c = Conv(x, w, b) y = Mul(c, k)", header=old(9))),
    Case(conv_scale, "one dimension",
         parse("(float[n, 1, 9] x) => (float[n, 2, 8] y) <float[2, 1, 2] w = {1, 2, 3, 4}, float[2, 1] k = {5, -6}> "
               "{ c = Conv(x, w) y = Mul(c, k) }")),
    Case(conv_scale, "depthwise",
         parse("(float[n, 2, 9] x) => (float[n, 2, 8] y) <float[2, 1, 2] w = {1, 2, 3, 4}, float[1, 2, 1] k = {5, -6}> "
               "{ c = Conv<group = 2>(x, w) y = Mul(c, k) }")),
    Case(conv_scale, "transposed, in groups",
         parse("(float[n, 2, 4] x) => (float[n, 4, 5] y) <float[2, 2, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}, "
               "float[4, 1] k = {5, -6, 7, -8}, float[4, 1] s = {1, 2, 3, 4}> "
               "{ c = ConvTranspose<group = 2>(x, w) m = Mul(c, k) y = Add(m, s) }")),
    Case(scale_before_conv, "times one number, with padding",
         graph("m = Mul(x, half) y = Conv<pads = [1, 1, 1, 1]>(m, w, b)")),
    Case(scale_before_conv, "over a number for each channel",
         wide("d = Div(x, k) y = Conv<auto_pad = \"SAME_UPPER\">(d, v)")),
    Case(scale_before_conv, "plus a number for each channel", wide("a = Add(k4, x) y = Conv(a, v)")),
    Case(scale_before_conv, "less one number, with a bias",
         wide("a = Sub(x, half) y = Conv<strides = [2, 2]>(a, v, b)")),
    Case(scale_before_conv, "a scale and a shift, as pixels are normalised",
         wide("m = Div(x, k) a = Sub(m, k4) y = Conv<auto_pad = \"VALID\">(a, v, b)")),
    Case(scale_before_conv, "zero, with padding", wide("a = Add(x, zero) y = Conv<pads = [1, 1, 1, 1]>(a, v)")),
    Case(scale_before_conv, "depthwise", wide("a = Mul(x, k) c = Add(a, k) y = Conv<group = 2>(c, w)")),
]
NEGATIVES = [
    Case(scale_before_conv, "a shift of what is padded", why="would have to be shifted",
         model=wide("a = Add(x, half) y = Conv<pads = [1, 1, 1, 1]>(a, v)")),
    Case(scale_before_conv, "a sum that broadcasts the channels", why="is unknown, or broadcast",
         model=graph("a = Mul(x, k) y = Conv(a, v)", more=V)),
    Case(scale_before_conv, "a number for each element", why="one number for each channel",
         model=wide("a = Mul(x, map) y = Conv(a, v)", "(float[n, 2, 3, 3] x) => (float[n, 2, 2, 2] y)")),
    Case(scale_before_conv, "another reader of the product", why="is also read by",
         model=wide("a = Mul(x, k) y = Conv(a, v) z = Neg(a)", WIDE.replace(" y)", " y, float[n, 2, h, v] z)"))),
    Case(scale_before_conv, "a factor that is no constant", why="constant",
         model=wide("a = Mul(x, f) y = Conv(a, v)", WIDE.replace(" x)", " x, float f)"))),
    Case(scale_before_conv, "weights that become infinite", why="infinite",
         model=wide("a = Div(x, zero) y = Conv(a, v)")),
    Case(conv_scale, "a number for each place", why="one number for each channel",
         model=graph("c = Conv(x, w) y = Add(c, map)", "(float[n, 1, 4, 4] x) => (float[n, 2, 3, 3] y)")),
    Case(conv_scale, "a vector runs along the last axis", why="one number for each channel",
         model=graph("c = Conv(x, w) y = Mul(c, row)", "(float[n, 1, 4, 4] x) => (float[n, 2, 3, 3] y)")),
    Case(conv_scale, "as long as there are channels, but along the last axis", why="one number for each channel",
         model=graph("c = Conv(x, w) y = Mul(c, vector)", "(float[n, 1, 3, 3] x) => (float[n, 2, 2, 2] y)")),
    Case(conv_scale, "a constant that adds an axis", why="more axes",
         model=graph("c = Conv(x, w) y = Mul(c, deep)", "(float[2, 1, 3, 3] x) => (float[1, 2, 2, 2, 2] y)")),
    Case(conv_scale, "one channel that becomes two", why="one number for each channel",
         model=graph("c = Conv(x, v) y = Mul(c, k)", more=", float[1, 1, 2, 2] v = {1, 2, 3, 4}")),
    Case(conv_scale, "division by zero", why="infinite or NaN", model=graph("c = Conv(x, w, b) y = Div(c, zero)")),
    Case(conv_scale, "another reader", why="is also read by",
         model=graph("c = Conv(x, w, b) m = Mul(c, k) y = Sub(m, c)")),
    Case(conv_scale, "a factor that is no constant", why="a constant for 'factor'",
         model=graph("c = Conv(x, w, b) y = Mul(c, z)",
                     "(float[n, 1, h, v] x, float[2, 1, 1] z) => (float[n, 2, p, q] y)")),
    Case(conv_scale, "weights that are no constant", why="a constant for 'w'",
         model=graph("c = Conv(x, z) y = Mul(c, k)",
                     "(float[n, 1, h, v] x, float[2, 1, 2, 2] z) => (float[n, 2, p, q] y)")),
    Case(conv_scale, "of old, when a product might start at any axis", why="before opset 7, an op with an axis",
         model=graph("c = Conv(x, w, b) y = Mul<broadcast = 1, axis = 0>(c, half)", header=old(6))),
    Case(conv_scale, "nothing is taken apart again", why="none can be decomposed", target="decomposed",
         model=graph("c = Conv(x, w, b) y = Mul(c, k)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_float16_that_would_overflow_is_skipped():
    model = graph("c = Conv(x, w, b) y = Mul(c, k)")
    text = "(float16[n, 1, h, v] x) => (float16[n, 2, p, q] y) { c = Conv(x, w) y = Mul(c, k) }"
    model = parse(text)
    for name, shape in (("w", (2, 1, 2, 2)), ("k", ())):
        model.graph.initializer.append(numpy_helper.from_array(np.full(shape, 300, np.float16), name))
    check_spares(Case(conv_scale, "overflow", model, why="infinite or NaN in float16"))
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.full((), 2, np.float16), "k"))
    check_fires(Case(conv_scale, "no overflow", model))


def test_a_shift_leaves_the_weights_where_they_are():
    made, _ = surgeon.rewrite(graph("c = Conv(x, w, b) y = Add(c, k)"), conv_scale)
    assert [node.op_type for node in made.graph.node] == ["Conv"]
    assert made.graph.node[0].input[1] == "w"
    assert "b" not in {item.name for item in made.graph.initializer}


def test_a_scale_and_a_shift_leave_one_node_and_no_weight_twice():
    made, _ = surgeon.rewrite(FIRES[8].model, conv_scale)
    assert [node.op_type for node in made.graph.node] == ["Conv"]
    held = {
        tuple(item.dims): numpy_helper.to_array(item)
        for item in made.graph.initializer
        if item.name in made.graph.node[0].input
    }
    np.testing.assert_array_equal(held[2,], np.float32([0.5 * 3 - 2, -1 * 0.5 + 7]))
    assert sum(tuple(item.dims) == (2, 1, 2, 2) for item in made.graph.initializer) == 1
