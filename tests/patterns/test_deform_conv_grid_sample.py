"""Deformable convolution by samples: proved against ONNX's own, refused where it cannot be written, and built."""

import onnx
import pytest
from surgeon.patterns.convolution.deform_conv_grid_sample import deform_conv_grid_sample

import surgeon
from surgeon.runtime.tensorrt.library import installed
from surgeon.testing import Case, check_fires, check_spares, parse

ALL = "strides = [2, 1], pads = [1, 2, 1, 2], dilations = [1, 2], group = 2, offset_group = 2"
TENSORS = "float[n, 4, 8, 7] x, float[6, 2, 3, 2] w, float[n, 24, 4, 9] o, float[n, 12, 4, 9] m"
SIMPLE = "float[2, 4, 9, 9] x, float[6, 4, 3, 3] w, float[2, 18, 7, 7] o"
PLUGIN = (
    "stride = [2, 1], padding = [1, 2], dilation = [1, 2], group = 2, deformable_group = 2, "
    'plugin_version = "2", plugin_namespace = ""'
)


def graph(body, inputs=TENSORS, opset=19, dtype="float"):
    header = f'<ir_version: 9, opset_import: ["" : {opset}, "trt.plugins" : 1]> g'
    bias = "float[6] b = {1, 2, 3, 4, 5, 6}"
    return parse(f"{header} ({inputs}) => ({dtype}[n, 6, p, q] y) <{bias}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(deform_conv_grid_sample, "all that it may have", graph(f"y = DeformConv<{ALL}>(x, w, o, b, m)"),
         target="tensorrt"),
    Case(deform_conv_grid_sample, "nothing beyond the offsets", graph("y = DeformConv(x, w, o)", SIMPLE),
         target="onnx"),
    Case(deform_conv_grid_sample, "at an opset where GridSample calls its mode linear", target="tensorrt",
         model=graph(f"y = DeformConv<{ALL}>(x, w, o, , m)", opset=20)),
    Case(deform_conv_grid_sample, "the plugin", target="tensorrt",
         model=graph(f"y = trt.plugins.ModulatedDeformConv2d<{PLUGIN}>(x, o, m, w, b)")),
]
NEGATIVES = [
    Case(deform_conv_grid_sample, "a weight of unknown size", why="sizes of the weight are not fixed",
         target="tensorrt",
         model=graph("y = DeformConv(x, w, o)", SIMPLE.replace("float[6, 4", "float[f, 4"))),
    Case(deform_conv_grid_sample, "free channels", why="the number of channels is not fixed", target="tensorrt",
         model=graph("y = DeformConv(x, w, o)", SIMPLE.replace("[2, 4, 9, 9]", "[2, c, 9, 9]"))),
    Case(deform_conv_grid_sample, "a convolution", graph("y = Conv(x, w)", SIMPLE), target="tensorrt",
         why="DeformConv"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.skipif(installed() is None, reason="there is no tensorrt-rtx: it has wheels for few platforms")
def test_it_needs_no_plugin():
    made, _ = surgeon.rewrite(FIRES[0].model, deform_conv_grid_sample, target="tensorrt", check="none")
    assert surgeon.check(FIRES[0].model, "tensorrt")
    assert not surgeon.check(made, "tensorrt", build=True)
    assert "DeformConv" not in {node.op_type for node in onnx.load_from_string(made.SerializeToString()).graph.node}
