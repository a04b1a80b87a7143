"""`torchvision::deform_conv2d` from torch to ONNX Runtime and to TensorRT, as notebooks/deform_conv.ipynb does it."""

import numpy as np
import onnx
import pytest
import torch

import surgeon
import surgeon.torch
from surgeon.runtime.kernels.vision.deformable import deformable_convolution
from tests.from_torch.beside_notebooks import load
from tests.from_torch.operators import EXPORTERS, attributes, export, registered

NUMBERS = {"stride": (2, 3), "padding": (4, 5), "dilation": (6, 7)}
NAMED = {
    "stride_h": 2,
    "stride_w": 3,
    "pad_h": 4,
    "pad_w": 5,
    "dilation_h": 6,
    "dilation_w": 7,
    "groups": 8,
    "offset_groups": 9,
}


@pytest.fixture(scope="module")
def deform():
    """What stands in for torchvision's operator; gone after these tests, so that others may define it."""
    module = load("deform")
    yield module
    del module.library  # the last reference: torch takes back what it defined


@pytest.fixture(scope="module")
def tensors():
    """x, offset, weight, bias, mask."""
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 72, 12, 11), (2, 108, 4, 5), (16, 9, 3, 2), (16,), (2, 54, 4, 5)
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("is_masked", [True, False])
def test_what_stands_in_for_torchvision_computes_the_definition(deform, tensors, is_masked):
    x, offset, weight, bias, mask = tensors
    found = deform.deform_conv2d(x, offset, weight, bias, mask=mask if is_masked else None, **NUMBERS)
    arrays = [one.numpy() for one in (x, weight, offset)]
    wanted = deformable_convolution(
        *arrays,
        mask.numpy() if is_masked else None,
        bias.numpy(),
        strides=NUMBERS["stride"],
        pads=NUMBERS["padding"],
        dilations=NUMBERS["dilation"],
        group=8,
        offset_group=9,
    )
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_masked", [True, False], ids=["with a mask", "without"])
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_from_torch_to_both_targets(deform, tensors, exporter, is_masked):
    """Nine numbers that differ each arrive by name; what is written agrees with torch, and the plugin is whole."""
    x, offset, weight, bias, mask = tensors

    class Block(torch.nn.Module):
        def forward(self, x, offset, mask=None):
            return deform.deform_conv2d(x, offset, weight, bias, mask=mask, **NUMBERS)

    args = (x, offset, mask) if is_masked else (x, offset)
    placeholders = {"torchvision::deform_conv2d": "custom::deform_conv2d"}
    made = export(Block(), "", args, exporter, placeholders=placeholders, opset=19)
    (node,) = [node for node in made.model.graph.node if node.domain]
    assert attributes(node) == NAMED | {"use_mask": int(is_masked)}
    for target, op, inputs in (("ort", "DeformConv", 4 + is_masked), ("tensorrt", "ModulatedDeformConv2d", 5)):
        model, report = surgeon.rewrite(made.model, "deform_conv", target=target)
        (node,) = [node for node in model.graph.node if node.op_type == op]
        assert len(node.input) == inputs
        assert report.outcome == "proved"
        assert surgeon.check(model, target=target) == []
        assert surgeon.torch.compare(Block(), model, args)


def test_the_tutorials_three_arguments_are_refused_in_one_sentence(deform, tensors, tmp_path):
    x, offset, weight, bias, mask = tensors

    class Block(torch.nn.Module):
        def forward(self, x, offset, mask):
            return deform.deform_conv2d(x, offset, weight, bias, mask=mask, **NUMBERS)

    def three(g, input, weight, offset, *others):
        return g.op("custom::deform_conv2d", input, weight, offset)

    path = tmp_path / "three.onnx"
    with registered("torchvision::deform_conv2d", three, 19):
        torch.onnx.export(Block(), (x, offset, mask), str(path), dynamo=False, opset_version=19)
    (miss,) = surgeon.explain(path, "deform_conv")
    assert miss.reason == (
        f"the node lacks mask, bias, {', '.join(NAMED)}, use_mask; export it again with every argument by name"
    )


def test_a_plugin_without_an_attribute_is_found(deform, tensors):
    x, offset, weight, bias, _ = tensors
    made = export(
        lambda x, offset: deform.deform_conv2d(x, offset, weight, bias, **NUMBERS),
        "x offset",
        (x, offset),
        "torchscript",
        placeholders={"torchvision::deform_conv2d": "custom::deform_conv2d"},
        opset=19,
    )
    model, _ = surgeon.rewrite(made.model, "deform_conv", target="tensorrt")
    plugin = model.graph.node[-1]
    for item in list(plugin.attribute):
        broken = onnx.ModelProto.FromString(model.SerializeToString())
        broken.graph.node[-1].attribute.remove(item)
        reasons = " ".join(found.reason for found in surgeon.check(broken, target="tensorrt"))
        if not item.name.startswith("plugin_"):
            assert f"needs the attribute '{item.name}'" in reasons
