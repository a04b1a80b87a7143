"""Placeholders of old exports: named, then replaced, then beside torch, as notebooks/placeholders_in_the_wild.ipynb."""

import io
import warnings

import onnx
import pytest
import torch

import surgeon
import surgeon.torch
from tests.from_torch.beside_notebooks import load


def wild(module, args, kind):
    """An export of the TorchScript exporter that goes on where it does not know an operator."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            args,
            stream,
            dynamo=False,
            opset_version=19,
            operator_export_type=getattr(torch.onnx.OperatorExportTypes, kind),
            input_names=["x", "offset"][: len(args)],
        )
    return onnx.load_from_string(stream.getvalue())


def foreign(model):
    """The names of the nodes that are not ONNX's."""
    return [f"{node.domain}::{node.op_type}" for node in model.graph.node if node.domain]


class Activations(torch.nn.Module):
    """GELU with an argument that must not be lost, behind an operator that the exporter lacks."""

    def forward(self, x):
        return torch.nn.functional.gelu(torch.asinh(x), approximate="tanh")


@pytest.fixture(scope="module")
def deform():
    """What stands in for torchvision's operator; gone after these tests, so that others may define it."""
    module = load("deform")
    yield module
    del module.library  # the last reference: torch takes back what it defined


@pytest.fixture
def deformable(deform):
    """A module with an operator of fourteen arguments, and its inputs."""
    weight = torch.randn(6, 2, 3, 2, generator=torch.Generator().manual_seed(0))

    class Deformable(torch.nn.Module):
        def forward(self, x, offset):
            return deform.deform_conv2d(torch.asinh(x), offset, weight, stride=(2, 1), padding=(1, 2))

    return Deformable(), (torch.randn(1, 4, 8, 7), torch.randn(1, 24, 4, 10))


def test_gelu_keeps_its_argument(forget_implementations):
    """As ATen with a string by place, by name, and as one node of ONNX Runtime's that computes the same."""
    for operator in ("aten::asinh", "aten::gelu"):
        surgeon.torch.implement(operator)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    model = wild(Activations(), (x,), "ONNX_ATEN")
    assert foreign(model) == ["org.pytorch.aten::ATen"] * 2
    named, _ = surgeon.rewrite(model, "named_arguments")
    assert foreign(named) == ["aten::asinh", "aten::gelu"]
    assert [(item.name, item.s) for item in named.graph.node[-1].attribute] == [("approximate", b"tanh")]
    assert surgeon.torch.compare(Activations(), named, (x,))
    made, _ = surgeon.rewrite(named, "aten_elementwise")
    made, report = surgeon.rewrite(made, ["gelu", "gelu_tanh"])
    assert [site.rule for site in report.sites] == ["gelu_tanh"]
    assert report.outcome == "proved"
    assert surgeon.check(made) == []
    assert surgeon.torch.compare(Activations(), made, (x,)).engine == "ONNX Runtime"


@pytest.mark.parametrize("kind", ["ONNX_ATEN_FALLBACK", "ONNX_FALLTHROUGH"])
def test_fourteen_arguments_by_place(kind, deformable):
    """The attribute `operator` without a namespace, and torchvision::deform_conv2d with fourteen inputs."""
    module, args = deformable
    model = wild(module, args, kind)
    assert max(len(node.input) for node in model.graph.node) == 14
    named, _ = surgeon.rewrite(model, "named_arguments", check="none")
    assert foreign(named) == ["aten::asinh", "torchvision::deform_conv2d"]
    numbers = {item.name: item.i for item in named.graph.node[-1].attribute}
    assert (numbers["stride_h"], numbers["stride_w"], numbers["pad_h"], numbers["pad_w"]) == (2, 1, 1, 2)
    assert numbers["use_mask"] == 0
    made, _ = surgeon.rewrite(named, "aten_elementwise", check="none")
    made, report = surgeon.rewrite(made, "deform_conv")
    assert report.outcome == "proved"
    assert surgeon.check(made) == []
    assert surgeon.torch.compare(module, made, args).engine == "ONNX Runtime"
    at_once, _ = surgeon.rewrite(model, ["named_arguments", "aten_elementwise", "deform_conv"], check="none")
    assert at_once.graph.node == made.graph.node
