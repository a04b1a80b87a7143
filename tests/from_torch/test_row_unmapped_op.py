"""Operators that ONNX has and an exporter does not map: registered, or a placeholder that a rule replaces."""

import pytest
import torch

import surgeon
import surgeon.torch
from surgeon.errors import ExportError
from tests.from_torch.operators import both, export, nodes

X = torch.tensor([[0.3, -1.2, 2.5, 0.9], [-0.4, 1.1, 0.2, -2.0]])


class Ranked(torch.nn.Module):
    """asinh, which one exporter lacks, and kthvalue, which both lack."""

    def __init__(self, keepdim=False):
        super().__init__()
        self.keepdim = keepdim

    def forward(self, x):
        values, places = torch.kthvalue(torch.asinh(x), k=2, dim=1, keepdim=self.keepdim)
        return values, places


def kthvalue(g, self, k, dim, keepdim):
    """The k smallest, and the last of them."""
    values, places = g.top_k(self, [k], axis=dim, largest=0)
    place = [k - 1] if keepdim else k - 1
    return g.gather(values, place, axis=dim), g.gather(places, place, axis=dim)


@pytest.fixture
def registered():
    """Both operators, by name; whatever is registered on top is taken back too."""
    surgeon.torch.register("aten::asinh", lambda g, self: g.asinh(self), opset=9)
    surgeon.torch.register("aten::kthvalue", kthvalue, opset=11)
    yield
    for op in ("aten::asinh", "aten::kthvalue"):
        surgeon.torch.unregister(op)


@both
def test_without_a_registration_the_export_names_the_operator(exporter):
    """And so does `is_supported`, before it."""
    assert not surgeon.torch.is_supported("aten::kthvalue", exporter=exporter)
    with pytest.raises(ExportError, match="aten::kthvalue" if exporter == "dynamo" else "aten::asinh"):
        export(Ranked(), "x", (X,), exporter, opset=18)


@both
@pytest.mark.parametrize("keepdim", [False, True])
def test_plain_arguments_and_two_results(exporter, keepdim, registered):
    """By names, booleans as booleans; both outputs are torch's."""
    made = export(Ranked(keepdim), "x", (X,), exporter, opset=18)
    found = [node.op_type for node in nodes(made) if node.op_type != "Constant"]
    assert found == ["Asinh", "TopK", "Gather", "Gather"]
    assert surgeon.torch.compare(Ranked(keepdim), made, (X,))
    assert surgeon.torch.is_supported("aten::kthvalue", exporter=exporter, opset=18)


@both
def test_a_forgotten_argument_counts_only_where_it_is_used(exporter, registered):
    """keepdim at its default, and not."""
    surgeon.torch.register("aten::kthvalue", lambda g, self, k, dim: kthvalue(g, self, k, dim, False), opset=11)
    assert surgeon.torch.compare(Ranked(), export(Ranked(), "x", (X,), exporter, opset=18), (X,))
    with pytest.raises(ExportError, match="has no parameter 'keepdim', which is True here"):
        export(Ranked(True), "x", (X,), exporter, opset=18)


@pytest.mark.parametrize(("opset", "last"), [(7, "Log"), (8, "Log"), (9, "Asinh"), (18, "Asinh")])
def test_an_opset_older_than_the_op(opset, last, registered):
    """Written out below the opset that has it; the opset of the export chooses."""

    @surgeon.torch.register("aten::asinh", opset=7)
    def written_out(g, self):
        return g.log(g.add(self, g.sqrt(g.add(g.mul(self, self), 1.0))))

    made = export(torch.asinh, "x", (X,), "torchscript", opset=opset)
    assert nodes(made)[-1].op_type == last
    assert surgeon.torch.compare(torch.asinh, made, (X,))


@both
@pytest.mark.usefixtures("forget_implementations")
def test_a_placeholder_and_a_rule(exporter, registered):
    """What an export names is a placeholder though it is registered; each place is proved against torch's operator."""
    surgeon.torch.implement("aten::asinh")
    exported = export(Ranked(), "x", (X,), exporter, opset=18, placeholders=["aten::asinh"])
    assert exported.placeholders == {"aten::asinh": 1}
    made, report = surgeon.rewrite(exported.model, "aten_elementwise", require_proof=True)
    assert "Python implementation of aten::asinh" in report.sites[0].proof.oracle
    assert surgeon.torch.compare(Ranked(), made, (X,))
