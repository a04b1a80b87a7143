"""Convolutions of integers in whole floats: what fires and what does not."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.quantization.integer_conv import cast_conv_integer, conv_integer, qlinear_conv

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

# No weight is beyond 64: on processors without VNNI ONNX Runtime's QLinearConv cuts off sums of two larger products.
CONSTANTS = (
    f"int8[4, 2, 3, 3] w = {{{', '.join(str(place * 37 % 121 - 60) for place in range(72))}}}, uint8 z = {{100}}, "
    "int8[4] zeros = {0, 1, 2, 0}, int8 zero = {0}, float s = {0.02}, float[4] each = {0.5, 0.25, 2, 0.1}, "
    "float one = {0.1}, float t = {100}, uint8 uz = {3}, int32[4] b = {1000, -20000, 3, 4}, "
    "int32[4] large = {100000000, -20000000, 3, 4}"
)
INTEGERS = "(uint8[n, 2, 5, 5] x) => (int32[n, 4, 3, 3] y)"
SCALED = "(uint8[n, 2, 5, 5] x) => (uint8[n, 4, 3, 3] y)"


def model(body, head=SCALED):
    return graph(body, head, CONSTANTS)


def deep(channels, group=1):
    """A convolution over so many channels that float32 does not add them up to a whole number."""
    made = graph(f"y = ConvInteger<group = {group}>(x, v)", f"(uint8[1, {channels}, 2] x) => (int32[1, 2, 1] y)")
    values = np.full((2, channels // group, 2), 127, np.int8)
    made.graph.initializer.append(numpy_helper.from_array(values, "v"))
    return made


# fmt: off
FIRES = [
    Case(conv_integer, "a zero point of the input", model("y = ConvInteger(x, w, z)", INTEGERS), target="tensorrt"),
    Case(conv_integer, "many channels, in parts", deep(1000), target="tensorrt"),
    Case(cast_conv_integer, "cast to float, with pads and strides", target="tensorrt",
         model=model("i = ConvInteger<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w, z) y = Cast<to = 1>(i)",
                     "(uint8[n, 2, 5, 5] x) => (float[n, 4, 3, 3] y)")),
    Case(qlinear_conv, "one scale", model("y = QLinearConv(x, s, z, w, one, zero, t, uz)"), target="tensorrt"),
    Case(qlinear_conv, "a scale for each channel, and a bias", target="tensorrt",
         model=model("y = QLinearConv<kernel_shape = [3, 3]>(x, s, z, w, each, zeros, t, uz, b)")),
    Case(qlinear_conv, "a bias that float32 does not hold beside the sum", target="tensorrt",
         model=model("y = QLinearConv(x, s, z, w, each, zeros, t, uz, large)")),
]
NEGATIVES = [
    Case(conv_integer, "ONNX Runtime has it", model("y = ConvInteger(x, w, z)", INTEGERS), why="runs it as it is"),
    Case(cast_conv_integer, "ONNX Runtime has it", why="runs it as it is",
         model=model("i = ConvInteger(x, w, z) y = Cast<to = 1>(i)", "(uint8[n, 2, 5, 5] x) => (float[n, 4, 3, 3] y)")),
    Case(conv_integer, "groups of so many channels", deep(2000, 2), target="tensorrt", why="the sums of a group"),
    Case(qlinear_conv, "a bias that is computed", target="tensorrt", why="the bias must be constant",
         model=model("y = QLinearConv(x, s, z, w, one, zero, t, uz, k)",
                     "(uint8[n, 2, 5, 5] x, int32[4] k) => (uint8[n, 4, 3, 3] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
