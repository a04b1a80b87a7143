"""aten::gelu with its argument: a placeholder of either exporter, to Gelu or FastGelu, and a rule that drops it."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import gelu

import surgeon
import surgeon.torch
from surgeon import CheckFailed, rule
from tests.from_torch.operators import EXPORTERS, export, nodes

X = torch.linspace(-3, 3, 25)
NAMES = ["approximate", "exact"]


class Both(torch.nn.Module):
    """Both GELUs of torch."""

    def forward(self, x):
        return gelu(x, approximate="tanh"), gelu(x)


@pytest.fixture(scope="module", params=EXPORTERS)
def exported(request):
    """By one exporter: the placeholders, and what the exporter writes itself."""
    made = {
        name: export(Both(), "x", (X,), request.param, opset=18, output_names=NAMES, placeholders=placeholders)
        for name, placeholders in (("placeholders", ["aten::gelu"]), ("written_out", []))
    }
    return SimpleNamespace(**made)


@rule(patterns=[lambda g, x: g.op("aten::gelu", x)])
def silent(g, x):
    """Write aten::gelu as Gelu, in a pattern without a word of its argument.

    Numerics: wrong for tanh.
    """
    return g.ms_gelu(x)


@rule(patterns=[lambda g, x, approximate: g.op("aten::gelu", x, approximate=approximate)])
def careless(g, x, approximate):
    """Write aten::gelu as Gelu, and drop what it takes.

    Numerics: wrong for tanh.
    """
    return g.ms_gelu(x)


def test_the_argument_is_in_the_model(exported):
    """As an attribute by its name, also where it is the default."""
    found = [{item.name: item.s for item in node.attribute} for node in nodes(exported.placeholders)]
    assert found == [{"approximate": b"tanh"}, {"approximate": b"none"}]


@pytest.mark.parametrize("name", ["placeholders", "written_out"])
def test_each_becomes_its_own_op(exported, name):
    """From placeholders and from decompositions, each place proved; the outputs are torch's."""
    made, report = surgeon.rewrite(getattr(exported, name).model, "gelu", require_proof=True)
    assert [(node.domain, node.op_type) for node in made.graph.node] == [
        ("com.microsoft", "FastGelu"),
        ("com.microsoft", "Gelu"),
    ]
    assert len(report.sites) == 2
    assert surgeon.torch.compare(Both(), made, (X,))


def test_a_rule_that_does_not_name_the_argument_leaves_tanh_alone(exported):
    """And says why."""
    reasons = [miss.reason for miss in surgeon.explain(exported.placeholders.model, silent)]
    assert any("has approximate = tanh; the pattern expects the default" in reason for reason in reasons)


def test_a_rule_that_drops_the_argument_fails_the_comparison(exported):
    """By more than 3e-4, in the one output that it is wrong for."""
    made, _ = surgeon.rewrite(exported.placeholders.model, careless, check="none")
    with pytest.raises(CheckFailed, match="'approximate' differs from torch") as failed:
        surgeon.torch.compare(Both(), made, (X,))
    wrong, right = failed.value.report.outputs
    assert 3e-4 < wrong.max_abs < 6e-4
    assert right.ok


@pytest.mark.usefixtures("forget_implementations")
def test_a_rule_that_drops_the_argument_fails_the_proof_of_that_place(exported):
    """Against torch's own operator; the place where it is right is rewritten."""
    surgeon.torch.implement("aten::gelu")
    with pytest.raises(CheckFailed) as failed:
        surgeon.rewrite(exported.placeholders.model, careless)
    report = failed.value.report
    assert [site.rule for site in report.rolled_back] == ["careless"]
    assert "Python implementation of aten::gelu" in report.rolled_back[0].proof.oracle
    assert [node.op_type for node in failed.value.result.graph.node] == ["gelu", "Gelu"]


def test_onnxs_own_gelu_has_the_argument():
    """From opset 20 on, for a target that runs nothing but ONNX."""
    exported = export(Both(), "x", (X,), "torchscript", opset=20, placeholders=["aten::gelu"])
    made, _ = surgeon.rewrite(exported.model, "gelu", target="onnx", require_proof=True)
    found = [(node.op_type, [item.s for item in node.attribute]) for node in made.graph.node]
    assert found == [("Gelu", [b"tanh"]), ("Gelu", [])]
    assert surgeon.torch.compare(Both(), made, (X,))
