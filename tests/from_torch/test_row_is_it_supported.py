"""From what is not supported to a model that runs: what `unsupported` names is exported, rewritten and compared."""

import pytest
import torch

import surgeon
import surgeon.torch
from tests.from_torch.operators import EXPORTERS, export

X = torch.tensor([[0.3, -0.9, 0.0], [0.6, -0.1, 0.8]])
MISSING = {"dynamo": {"aten::i0": ("prims::bessel_i0",)}, "torchscript": {"aten::asinh": ("aten::asinh",)}}
MISSING["torchscript"]["aten::i0"] = ("aten::i0",)


class Window(torch.nn.Module):
    """A Kaiser window."""

    def forward(self, t):
        return torch.i0(2 * torch.sqrt(1 - t * t))


class Network(torch.nn.Module):
    """A window, and an operator that one exporter maps."""

    def __init__(self):
        super().__init__()
        self.window = Window()

    def forward(self, x):
        return torch.asinh(x) * self.window(x)


@surgeon.function("aten::i0")
def series(g, x):
    """I₀(x) for small x, by its series."""
    quarter = g.mul(x, x, 0.25)
    term = total = g.add(g.mul(quarter, 0.0), 1.0)
    for place in range(1, 12):
        term = g.mul(term, quarter, 1.0 / place**2)
        total = g.add(total, term)
    return total


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_names_to_export_with_lead_to_a_model_that_runs(exporter):
    """The findings say what is missing by both names, and their placeholders are all that the export needs."""
    missing = surgeon.torch.unsupported(Network(), (X,), exporter=exporter)
    assert {one.placeholder: one.missing for one in missing} == MISSING[exporter]
    (i0,) = [one for one in missing if one.name == "torch.i0"]
    assert (i0.where[0][0], i0.since) == ("window", None)

    names = [one.placeholder for one in missing]
    exported = export(Network(), "x", (X,), exporter, opset=18, placeholders=names)
    assert set(exported.placeholders) == set(names)
    made, report = surgeon.rewrite(exported.model, [series, "aten_elementwise"], check="none")
    assert len(report.sites) == len(names)
    result = surgeon.torch.compare(Network(), made, (X,))
    assert result.engine == "ONNX Runtime"
