"""Deformable convolution: what is written for ONNX and for TensorRT, what does not match and why."""

import numpy as np
import onnx
import pytest
from surgeon.patterns.convolution.deform_conv import deform_conv

import surgeon
from surgeon.runtime.kernels.vision.deformable import deformable_convolution
from surgeon.testing import Case, check_spares, parse
from tests.patterns.formulas import check_by_formula

SIZES = "stride_h=2, stride_w=1, pad_h=1, pad_w=2, dilation_h=1, dilation_w=2, groups=2, offset_groups=2"
LISTS = "stride=[2, 1], padding=[1, 2], dilation=[1, 2]"
TENSORS = "float[n, 4, 8, 7] x, float[6, 2, 3, 2] w, float[n, 24, h, v] o, float[n, 12, h, v] m, float[6] b"
FIXED = TENSORS.replace("n,", "2,").replace("h, v", "4, 9")


def graph(body, inputs=TENSORS, opset=19, output="n, 6, h, v"):
    """A model of one call."""
    domains = '"custom" : 1, "torchvision" : 1, "mmcv" : 1, "trt.plugins" : 1, "other" : 1'
    header = f'<ir_version: 8, opset_import: ["" : {opset}, {domains}]> g'
    return parse(f"{header} ({inputs}) => (float[{output}] y) {{ {body} }}")


def call(domain="custom", settings=f"{SIZES}, use_mask=1", tensors="x, w, o, m, b"):
    return f"y = {domain}.deform_conv2d<{settings}>({tensors})"


UNMASKED = call(settings=f"{SIZES}, use_mask=0")
NO_MASK = FIXED.replace("float[2, 12, 4, 9] m", "float[2, 0] m")
MMCV = f"y = mmcv.MMCVModulatedDeformConv2d<{LISTS}, groups=2, deform_groups=2>(x, o, m, w, b)"
VERSION = 'plugin_version="2", plugin_namespace=""'
PLUGIN = f"y = trt.plugins.ModulatedDeformConv2d<{LISTS}, group=2, deformable_group=2, {VERSION}>(x, o, m, w, b)"

# fmt: off
FIRES = [
    Case(deform_conv, "the placeholder", graph(call(), FIXED)),
    Case(deform_conv, "under torchvision's own name", graph(call("torchvision"), FIXED)),
    Case(deform_conv, "without a mask", graph(UNMASKED, NO_MASK)),
    Case(deform_conv, "mmcv's node", graph(MMCV, FIXED)),
    Case(deform_conv, "mmcv's node without a bias", graph(MMCV.replace(", b)", ")"), FIXED)),
    Case(deform_conv, "the plugin back to ONNX", graph(PLUGIN, FIXED), target="onnx"),
    Case(deform_conv, "to the plugin", graph(call(), FIXED), target="tensorrt"),
    Case(deform_conv, "to the plugin, without a mask", graph(UNMASKED, NO_MASK), target="tensorrt"),
    Case(deform_conv, "to the plugin, mmcv's node without a bias", target="tensorrt",
         model=graph(MMCV.replace(", b)", ")"), FIXED)),
    Case(deform_conv, "to the plugin at an opset that has no DeformConv", graph(call(), FIXED, 17), target="tensorrt"),
]
NEGATIVES = [
    Case(deform_conv, "three arguments, as the tutorial exports it", why="lacks mask, bias, stride_h",
         model=graph("y = custom.deform_conv2d(x, w, o)")),
    Case(deform_conv, "one attribute lost", why="lacks offset_groups; export it again",
         model=graph(call().replace(", offset_groups=2", ""))),
    Case(deform_conv, "mmcv's node without its groups", why="lacks deform_groups",
         model=graph(MMCV.replace(", deform_groups=2", ""))),
    Case(deform_conv, "an opset without DeformConv", graph(call(), opset=17), why="opset 19"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_by_formula(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_the_plugin_gets_what_it_requires():
    """All five tensors, every attribute, and where its creator is looked up."""
    made, _ = surgeon.rewrite(graph(UNMASKED, NO_MASK), deform_conv, target="tensorrt")
    node = made.graph.node[-1]
    assert (node.domain, node.op_type, len(node.input)) == ("trt.plugins", "ModulatedDeformConv2d", 5)
    assert {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute} == {
        "stride": [2, 1],
        "padding": [1, 2],
        "dilation": [1, 2],
        "group": 2,
        "deformable_group": 2,
        "plugin_version": b"2",
        "plugin_namespace": b"",
    }


def test_an_absent_mask_is_left_out():
    made, _ = surgeon.rewrite(graph(UNMASKED, NO_MASK), deform_conv)
    (node,) = made.graph.node
    assert list(node.input) == ["x", "w", "o", "b"]


def test_the_formula_is_the_definition():
    """Against the sum written out, pixel by pixel."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(1, 4, 5, 6)), rng.normal(size=(2, 2, 2, 3))
    offset, mask = rng.normal(size=(1, 24, 2, 3)) * 2, rng.uniform(size=(1, 12, 2, 3))
    numbers = {"strides": (3, 2), "pads": (1, 1), "dilations": (2, 1), "group": 2, "offset_group": 2}
    found = deformable_convolution(x, weight, offset, mask, np.ones(2), **numbers)
    wanted = np.ones((1, 2, 2, 3))
    for m, c, i, j, p, q in np.ndindex(2, 2, 2, 3, 2, 3):
        channel, tap = 2 * m + c, i * 3 + j
        group = channel // 2
        y = p * 3 - 1 + i * 2 + offset[0, group * 12 + 2 * tap, p, q]
        z = q * 2 - 1 + j + offset[0, group * 12 + 2 * tap + 1, p, q]
        wanted[0, m, p, q] += weight[m, c, i, j] * mask[0, group * 6 + tap, p, q] * _at(x[0, channel], y, z)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def _at(image, y, z):
    """One bilinear look at an image that is zero beyond its edge."""
    total = 0.0
    for row in range(image.shape[0]):
        for column in range(image.shape[1]):
            total += image[row, column] * max(0, 1 - abs(y - row)) * max(0, 1 - abs(z - column))
    return total
