"""Rules for a Pad: what a convolution, an average or a maximum can add itself."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.convolution.pad_conv import pad_average_pool, pad_conv, pad_conv_integer
from surgeon.patterns.convolution.pad_max_pool import pad_max_pool

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 3, h, v] x, float[4, 3, 3, 3] w) => (float[n, 4, p, q] y)"
POOL = "(float[n, 3, h, v] x) => (float[n, 3, p, q] y)"
PADS = "int64[8] pads = {0, 0, 1, 2, 0, 0, 3, 0}"
ZERO = "float zero = {0}"
ONES = "int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}"
BYTES = (
    f"{ONES}, uint8 z = {{3}}, uint8 uz = {{0}}, int8 wz = {{0}}, "
    f"int8[4, 3, 3, 3] w = {{{', '.join(str(place % 7 - 3) for place in range(108))}}}"
)
SUMS = "(uint8[n, 3, h, v] x) => (int32[n, 4, p, q] y)"
MAX = "MaxPool<kernel_shape = [3, 3], strides = [2, 2]>"


def graph(body, constants=PADS, head=HEAD, version=17):
    header = f'<ir_version: {6 if version < 14 else 8}, opset_import: ["" : {version}]> agraph '
    return parse(f"{header}{head} {f'<{constants}>' if constants else ''} {{ {body} }}")


def lowest(body, head=POOL, constants=ONES, low=-np.inf):
    """A graph with the lowest number of its dtype as a constant."""
    made = graph(body, constants, head)
    made.graph.initializer.append(numpy_helper.from_array(np.array(low, np.float32 if low < -999 else np.int8), "low"))
    return made


# fmt: off
FIRES = [
    Case(pad_conv, "zeros left out", graph("p = Pad(x, pads) y = Conv(p, w)")),
    Case(pad_conv, "zeros written out", graph("p = Pad(x, pads, zero) y = Conv(p, w)", f"{PADS}, {ZERO}")),
    Case(pad_conv, "mode given, a convolution with padding of its own",
         graph('p = Pad<mode = "constant">(x, pads) y = Conv<pads = [1, 0, 0, 2], strides = [2, 1]>(p, w)')),
    Case(pad_conv, "VALID", graph('p = Pad(x, pads) y = Conv<auto_pad = "VALID">(p, w)')),
    Case(pad_conv, "NOTSET, with a bias",
         graph('p = Pad(x, pads) y = Conv<auto_pad = "NOTSET">(p, w, b)', f"{PADS}, float[4] b = {{1, 2, 3, 4}}")),
    Case(pad_conv, "as an attribute",
         graph("p = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1]>(x) y = Conv(p, w)", "", version=10)),
    Case(pad_conv, "zero as an attribute",
         graph("p = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1], value = 0.0>(x) y = Conv(p, w)", "", version=2)),
    Case(pad_conv, "some axes, opset 18",
         graph("p = Pad(x, pads, zero, axes) y = Conv(p, w)",
               f"int64[4] pads = {{1, 2, 3, 0}}, int64[2] axes = {{-1, 2}}, {ZERO}", version=18)),
    Case(pad_conv, "some axes, zeros left out",
         graph("p = Pad(x, pads, , axes) y = Conv(p, w)", "int64[2] pads = {1, 2}, int64[1] axes = {3}", version=21)),
    Case(pad_conv, "one dimension",
         graph("p = Pad(x, pads) y = Conv(p, w)", "int64[6] pads = {0, 0, 2, 0, 0, 1}",
               "(float[n, 2, t] x, float[4, 2, 3] w) => (float[n, 4, s] y)")),
    Case(pad_conv, "three dimensions",
         graph("p = Pad(x, pads) y = Conv(p, w)", "int64[10] pads = {0, 0, 1, 1, 1, 0, 0, 1, 1, 0}",
               "(float[n, 2, 5, 5, 5] x, float[4, 2, 3, 3, 3] w) => (float[n, 4, a, b, c] y)")),
    Case(pad_average_pool, "as torch writes count_include_pad",
         graph("p = Pad(x, pads, zero) y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [0,0,0,0]>(p)",
               f"int64[8] pads = {{0, 0, 1, 1, 0, 0, 1, 1}}, {ZERO}", POOL)),
    Case(pad_average_pool, "before it counted by itself",
         graph("p = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1]>(x) y = AveragePool<kernel_shape = [3, 3]>(p)", "", POOL, 9)),
    Case(pad_average_pool, "with counted padding of its own",
         graph("p = Pad(x, pads) y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 0, 0], count_include_pad = 1>(p)",
               "int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}", POOL)),
    Case(pad_max_pool, "negative infinity", lowest(f"p = Pad(x, pads, low) y = {MAX}(p)")),
    Case(pad_max_pool, "negative infinity before a pooling with padding and dilations",
         lowest("p = Pad(x, pads, low) "
                "y = MaxPool<kernel_shape = [3, 3], dilations = [2, 1], pads = [0, 1, 1, 0]>(p)")),
    Case(pad_max_pool, "the lowest byte",
         graph(f"p = Pad(x, pads) y = {MAX}(p)", ONES, POOL.replace("float", "uint8"))),
    Case(pad_max_pool, "the lowest signed byte",
         lowest(f"p = Pad(x, pads, low) y = {MAX}(p)", POOL.replace("float", "int8"), low=-128)),
    Case(pad_max_pool, "zeros behind a Relu, as keras writes",
         graph(f"r = Relu(x) p = Pad(r, pads, zero) y = {MAX}(p)", f"{ONES}, {ZERO}", POOL)),
    Case(pad_max_pool, "zeros behind a Relu with another reader",
         graph(f"r = Relu(x) p = Pad(r, pads) y = {MAX}(p) z = Neg(r)", ONES,
               POOL.replace(" y)", " y, float[n, 3, h, v] z)"))),
    Case(pad_max_pool, "zeros behind a Clip",
         graph(f"r = Clip(x, zero, six) p = Pad(r, pads, zero) y = {MAX}(p)",
               f"{ONES}, {ZERO}, float six = {{6}}", POOL)),
    Case(pad_max_pool, "as an attribute",
         graph(f"r = Relu(x) p = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1]>(r) y = {MAX}(p)", "", POOL, 10)),
    Case(pad_conv_integer, "the zero point", graph("p = Pad(x, pads, z) y = ConvInteger(p, w, z)", BYTES, SUMS)),
    Case(pad_conv_integer, "no zero point, before a convolution with padding",
         graph("p = Pad(x, pads) y = ConvInteger<pads = [1, 0, 0, 1]>(p, w)", BYTES, SUMS)),
    Case(pad_conv_integer, "zero and a zero point of zero",
         graph("p = Pad(x, pads) y = ConvInteger(p, w, uz, wz)", BYTES, SUMS)),
    Case(pad_conv_integer, "a zero point that is no constant",
         graph("p = Pad(x, pads, d) y = ConvInteger(p, w, d)", BYTES, SUMS.replace(" x)", " x, uint8 d)"))),
]
NEGATIVES = [
    Case(pad_conv, "ones", why="expected the constant 0",
         model=graph("p = Pad(x, pads, one) y = Conv(p, w)", f"{PADS}, float one = {{1}}")),
    Case(pad_conv, "ones, as an attribute", why="value = 0.0, found 1.0",
         model=graph("p = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1], value = 1.0>(x) y = Conv(p, w)", "", version=10)),
    Case(pad_conv, "reflected", why="mode", model=graph('p = Pad<mode = "reflect">(x, pads) y = Conv(p, w)')),
    Case(pad_conv, "another channel", why="the batch or the channels",
         model=graph("p = Pad(x, pads) y = Conv(p, w)", "int64[8] pads = {0, 1, 1, 1, 0, 0, 1, 1}",
                     HEAD.replace("[n, 3", "[n, 2"))),
    Case(pad_conv, "a slice", why="negative pads",
         model=graph("p = Pad(x, pads) y = Conv(p, w)", "int64[8] pads = {0, 0, 1, 1, 0, 0, -1, 1}")),
    Case(pad_conv, "SAME_UPPER", why="auto_pad",
         model=graph('p = Pad(x, pads) y = Conv<auto_pad = "SAME_UPPER">(p, w)')),
    Case(pad_conv, "pads for one axis of two", why="two numbers for each spatial axis",
         model=graph("p = Pad(x, pads) y = Conv<pads = [1, 1]>(p, w)")),
    Case(pad_average_pool, "a window of one size", why="a size for each spatial axis",
         model=graph("p = Pad(x, pads) y = AveragePool<kernel_shape = [3]>(p)", PADS, POOL)),
    Case(pad_conv, "pads that are no constant", why="found None at 'p'",
         model=graph("p = Pad(x, z) y = Conv(p, w)", "", HEAD.replace(" w)", " w, int64[8] z)"))),
    Case(pad_conv, "another reader of the padded", why="is also read by",
         model=graph("p = Pad(x, pads) c = Conv(p, w) m = ReduceMean<keepdims = 0>(p) y = Add(c, m)")),
    Case(pad_average_pool, "padding of its own that is not counted", why="does not count",
         model=graph("p = Pad(x, pads) y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(p)", PADS, POOL)),
    Case(pad_average_pool, "rounded up", why="ceil_mode",
         model=graph("p = Pad(x, pads) y = AveragePool<kernel_shape = [3, 3], ceil_mode = 1>(p)", PADS, POOL)),
    Case(pad_average_pool, "more padding than window", why="only padding",
         model=graph("p = Pad(x, pads) y = AveragePool<kernel_shape = [3, 3]>(p)", PADS, POOL)),
    Case(pad_max_pool, "zeros, which may win", why="may be the maximum",
         model=graph(f"p = Pad(x, pads, zero) y = {MAX}(p)", f"{ONES}, {ZERO}", POOL)),
    Case(pad_max_pool, "ones behind a Relu", why="may be the maximum",
         model=graph(f"r = Relu(x) p = Pad(r, pads, one) y = {MAX}(p)", f"{ONES}, float one = {{1}}", POOL)),
    Case(pad_max_pool, "zeros behind a Clip of negative numbers", why="may be the maximum",
         model=graph(f"r = Clip(x, low, zero) p = Pad(r, pads, zero) y = {MAX}(p)",
                     f"{ONES}, {ZERO}, float low = {{-1}}", POOL)),
    Case(pad_max_pool, "zeros behind a Clip without a lower bound", why="may be the maximum",
         model=graph(f"r = Clip(x, , six) p = Pad(r, pads, zero) y = {MAX}(p)",
                     f"{ONES}, {ZERO}, float six = {{6}}", POOL)),
    Case(pad_max_pool, "zeros of which a window with dilations may consist", why="may be the maximum",
         model=graph("r = Relu(x) p = Pad(r, pads) y = MaxPool<kernel_shape = [3, 3], dilations = [2, 2]>(p)",
                     ONES, POOL)),
    Case(pad_max_pool, "more padding than window", why="only padding",
         model=graph(f"r = Relu(x) p = Pad(r, pads) y = {MAX}(p)", PADS, POOL)),
    Case(pad_max_pool, "rounded up", why="ceil_mode",
         model=graph("r = Relu(x) p = Pad(r, pads) y = MaxPool<kernel_shape = [3, 3], ceil_mode = 1>(p)", ONES, POOL)),
    Case(pad_max_pool, "indices in the padded tensor", why="it is an output of the graph",
         model=graph("r = Relu(x) p = Pad(r, pads) y, i = MaxPool<kernel_shape = [3, 3]>(p)", ONES,
                     POOL.replace(" y)", " y, int64[n, 3, p, q] i)"))),
    Case(pad_max_pool, "the channels", why="the batch or the channels",
         model=graph(f"r = Relu(x) p = Pad(r, pads) y = {MAX}(p)", "int64[8] pads = {0, 1, 1, 1, 0, 0, 1, 1}", POOL)),
    Case(pad_conv_integer, "another number than the zero point", why="other numbers than the zero point",
         model=graph("p = Pad(x, pads) y = ConvInteger(p, w, z)", BYTES, SUMS)),
    Case(pad_conv_integer, "a zero point that is no constant", why="is not fixed",
         model=graph("p = Pad(x, pads) y = ConvInteger(p, w, d)", BYTES, SUMS.replace(" x)", " x, uint8 d)"))),
    Case(pad_average_pool, "a largest element is no average", why="the model has no AveragePool",
         model=graph("p = Pad(x, pads) y = MaxPool<kernel_shape = [3, 3]>(p)", PADS, POOL)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_both_paddings_are_added():
    made, _ = surgeon.rewrite(FIRES[2].model, pad_conv)
    (node,) = made.graph.node
    assert {item.name: list(item.ints) for item in node.attribute} == {"pads": [2, 2, 3, 2], "strides": [2, 1]}
    assert not made.graph.initializer
