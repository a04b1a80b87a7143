"""Deformable attention: what is written for ONNX and for TensorRT, what does not match and why."""

import numpy as np
import pytest
import torch
from surgeon.patterns.vision.deformable_attention import deformable_attention
from torch.nn import functional

import surgeon
from surgeon.runtime.kernels.vision.deformable import mmcv_deformable_attention, tensorrt_deformable_attention
from surgeon.testing import Case, check_spares, parse
from tests.patterns.formulas import check_by_formula
from tests.patterns.tensorrt import faults

SIZES = "int64[2, 2] sizes = {3, 4, 2, 2}, int64[2] starts = {0, 12}"
TENSORS = "float[n, 16, 2, 8] v, float[n, 5, 2, 2, 3, 2] p, float[n, 5, 2, 2, 3] w"
CALL = "y = {domain}.MMCVMultiScaleDeformableAttention<im2col_step = 64>(v, sizes, starts, p, w)"


def graph(domain="mmdeploy", inputs=TENSORS, opset=17, constants=SIZES):
    """A model of one call."""
    header = f'<ir_version: 8, opset_import: ["" : {opset}, "mmdeploy" : 1, "mmcv" : 1, "trt.plugins" : 1]> g'
    body = CALL.format(domain=domain)
    return parse(f"{header} ({inputs}) => (float[n, q, 16] y) <{constants}> {{ {body} }}")


FREE = TENSORS.replace("n, 5", "n, q")
ONE = "int64[1, 2] sizes = {4, 4}, int64[1] starts = {0}"
OF_ONE = "float[n, 16, 2, 8] v, float[n, 5, 2, 1, 3, 2] p, float[n, 5, 2, 1, 3] w"
MADE = TENSORS + ", int64[2, 2] sizes, int64[2] starts"
# fmt: off
FIRES = [
    Case(deformable_attention, "mmdeploy's node", graph(), target="onnx"),
    Case(deformable_attention, "mmcv's node, at opset 20", graph("mmcv", opset=20), target="onnx"),
    Case(deformable_attention, "one level", graph(inputs=OF_ONE, constants=ONE), target="onnx"),
    Case(deformable_attention, "to the plugin", graph(), target="tensorrt"),
    Case(deformable_attention, "to the plugin, for any number of queries", graph(inputs=FREE), target="tensorrt"),
]
NEGATIVES = [
    Case(deformable_attention, "any number of queries", graph(inputs=FREE), target="onnx", why="must be fixed"),
    Case(deformable_attention, "levels of any size", graph(inputs=MADE, constants="float unread = {1}"),
         target="tensorrt", why="sizes of the levels must be constant"),
    Case(deformable_attention, "an opset without GridSample", graph(opset=15), target="onnx", why="opset 16"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_by_formula(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_the_formula_is_that_of_mmcv():
    """Against the definition in torch that mmcv falls back to: grid_sample over each level."""
    rng = np.random.default_rng(0)
    sizes, starts = np.int64([[3, 4], [2, 2]]), np.int64([0, 12])
    value, weights = rng.normal(size=(2, 16, 3, 8)), rng.uniform(size=(2, 5, 3, 2, 4))
    places = rng.uniform(-0.2, 1.2, size=(2, 5, 3, 2, 4, 2))
    levels = torch.from_numpy(value).split([12, 4], dim=1)
    grids = 2 * torch.from_numpy(places) - 1
    seen = []
    for level, (tall, wide) in enumerate(sizes.tolist()):
        held = levels[level].flatten(2).transpose(1, 2).reshape(2 * 3, 8, tall, wide)
        grid = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
        seen.append(functional.grid_sample(held, grid, mode="bilinear", padding_mode="zeros", align_corners=False))
    by = torch.from_numpy(weights).transpose(1, 2).reshape(2 * 3, 1, 5, 8)
    wanted = (torch.stack(seen, dim=-2).flatten(-2) * by).sum(-1).view(2, 24, 5).transpose(1, 2)
    found = mmcv_deformable_attention(value, sizes, starts, places, weights)
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-10)
    plugin = tensorrt_deformable_attention(value, sizes, starts, places, weights)
    np.testing.assert_array_equal(plugin.reshape(2, 5, 24), found)


def test_the_plugin_is_as_it_is_declared_and_tensorrt_rtx_needs_none():
    made, _ = surgeon.rewrite(graph(), deformable_attention, target="tensorrt")
    assert [node.op_type for node in made.graph.node] == ["MultiscaleDeformableAttnPlugin_TRT", "Reshape"]
    assert not [one for one in surgeon.check(made, "tensorrt", load=False) if "attribute" in one.reason]
    sampled, _ = surgeon.rewrite(graph(), deformable_attention, target="onnx")
    assert not faults(sampled)
