"""Local functions of exported models: an ONNX Script function kept, found and written out; one's own `aten::add`."""

import onnx
import onnxscript
import pytest
import torch
from onnxscript import opset14, opset18
from surgeon.patterns.activations.selu import selu
from torch.onnx import register_custom_op_symbolic, unregister_custom_op_symbolic

import surgeon
import surgeon.torch
from surgeon import Graph, GraphError, OpsetError, Tensor, rule
from tests.from_torch.operators import EXPORTERS
from tests.models import ops

DOMAIN = "custom-onnx-script"
SELU = f"{DOMAIN}::Selu"
custom = onnxscript.values.Opset(DOMAIN, 1)
both = pytest.mark.parametrize("exporter", EXPORTERS)
X = torch.linspace(-3, 3, 8).reshape(2, 4)


@onnxscript.script(custom, default_opset=opset18)
def Selu(X: onnxscript.FLOAT) -> onnxscript.FLOAT:  # noqa: N802, N803 - as the tutorials call it
    alpha = 1.67326
    gamma = 1.0507
    alphaX = opset18.CastLike(alpha, X)  # noqa: N806
    gammaX = opset18.CastLike(gamma, X)  # noqa: N806
    neg = gammaX * (alphaX * opset18.Exp(X) - alphaX)
    pos = gammaX * X
    zero = opset18.CastLike(0, X)
    return opset18.Where(X <= zero, neg, pos)  # noqa: SIM300


def older() -> onnx.FunctionProto:
    """The same as it was first written: at opset 14, with an op of opset 15."""
    proto = Selu.to_function_proto()
    proto.opset_import[0].version = opset14.version
    return proto


class Activated(torch.nn.Module):
    """A layer and two activations."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.selu(torch.selu(self.linear(x)) + 1)


def as_torch_has_it(model, path, module=None, args=(X,), **tolerances):
    """ONNX Runtime answers as torch does."""
    onnx.save(model, path)
    return surgeon.torch.compare(module or Activated(), path, args, **tolerances)


@pytest.fixture(scope="module")
def kept():
    """What the TorchScript exporter writes: calls of a local function, whose shapes `setType` told, and its domain."""
    register_custom_op_symbolic("aten::selu", lambda g, x: g.onnxscript_op(Selu, x).setType(x.type()), 18)
    try:
        path = io_path()
        torch.onnx.export(
            Activated(), (X,), path, dynamo=False, opset_version=18, custom_opsets={DOMAIN: 1}, input_names=["x"]
        )
    finally:
        unregister_custom_op_symbolic("aten::selu", 18)
    return onnx.load_from_string(path.getvalue())


def io_path():
    """A file in memory."""
    import io

    return io.BytesIO()


@pytest.fixture(scope="module")
def placeholders():
    """What the dynamo exporter writes where the operator is a placeholder: it inlines functions, always."""
    return surgeon.torch.export(Activated(), (X,), placeholders={"aten::selu": SELU}, opset=18).model


class TestKeptByTorchScript:
    """`g.onnxscript_op(...)` keeps the call, and one body for all calls."""

    def test_what_the_exporter_wrote(self, kept):
        assert ops(kept.graph).count("Selu") == 2
        assert [item.name for item in kept.functions] == ["Selu"]
        assert {item.domain: item.version for item in kept.opset_import}[DOMAIN] == 1
        assert {"/Selu_output_0"} <= {value.name for value in kept.graph.value_info}

    def test_the_rule_fires_inside_the_function(self, kept, tmp_path):
        after, report = surgeon.rewrite(kept, selu, require_proof=True)
        assert report.counts == {"selu": 1}
        (function,) = after.functions
        assert ops(function) == ["Selu"]
        assert {item.name: item.f for item in function.node[0].attribute} == pytest.approx(NUMBERS)
        as_torch_has_it(after, tmp_path / "a.onnx", rtol=1e-4, atol=1e-4)

    def test_written_out_it_is_one_node_and_the_function_goes(self, kept, tmp_path):
        after, report = surgeon.rewrite(kept, selu, inline=SELU, require_proof=True)
        nodes = [node for node in after.graph.node if node.op_type == "Selu"]
        assert [node.domain for node in nodes] == ["", ""]
        assert {item.name: item.f for item in nodes[0].attribute} == pytest.approx(NUMBERS)
        assert not after.functions
        assert [site.rules for site in report.sites] == [(f"inline {SELU}", "selu")] * 2
        as_torch_has_it(after, tmp_path / "a.onnx", rtol=1e-4, atol=1e-4)

    def test_a_body_older_than_its_ops_is_refused_and_then_mended(self, kept):
        broken = onnx.ModelProto()
        broken.CopyFrom(kept)
        broken.functions[0].opset_import[0].version = 14
        sentence = "has opset 14 but uses CastLike, which exists from opset 15; write the body at opset 15 or later"
        with pytest.raises(GraphError, match=sentence):
            surgeon.rewrite(broken, selu, inline=SELU)
        mended = onnx.ModelProto()
        mended.CopyFrom(broken)
        mended.functions[0].CopyFrom(Selu.to_function_proto())
        after, _ = surgeon.rewrite(mended, selu, inline=SELU, require_proof=True)
        assert not after.functions


NUMBERS = {"alpha": 1.67326, "gamma": 1.0507}


class TestAddedAfterDynamo:
    """A placeholder of the function's name becomes a call of it."""

    def test_the_placeholder_gets_the_body(self, placeholders, tmp_path, torch_computes):
        torch_computes("aten::selu", SELU)
        after, report = surgeon.rewrite(placeholders, surgeon.function(Selu), require_proof=True)
        assert all(proof.independent for proof in report.proofs)
        assert report.counts == {"Selu": 2}
        assert after.functions[0] == Selu.to_function_proto()
        onnx.checker.check_model(after, full_check=True)
        as_torch_has_it(after, tmp_path / "a.onnx", rtol=1e-4, atol=1e-4)

    def test_and_then_the_one_node(self, placeholders, tmp_path):
        called, _ = surgeon.rewrite(placeholders, surgeon.function(Selu), check="none")
        after, _ = surgeon.rewrite(called, selu, inline="all", require_proof=True)
        assert [node.domain for node in after.graph.node if node.op_type == "Selu"] == ["", ""]
        as_torch_has_it(after, tmp_path / "a.onnx", rtol=1e-4, atol=1e-4)

    def test_a_body_older_than_its_ops_is_refused(self):
        sentence = f"CastLike exists from opset 15, but the body of local function {SELU} has opset 14. Write"
        with pytest.raises(OpsetError, match=sentence):
            surgeon.function(older())

    def test_its_body_is_a_pattern_too(self, placeholders):
        fn = surgeon.function(Selu)

        @rule(patterns=[fn.body], target="onnx")
        def found(g: Graph, X: Tensor) -> Tensor:  # noqa: N803
            return g.selu(X, **NUMBERS)

        called, _ = surgeon.rewrite(placeholders, fn, check="none")
        after, _ = surgeon.rewrite(called, found, require_proof=True)
        assert ops(after.functions[0]) == ["Selu"]


ADD = "custom.aten::custom_aten_add"


@surgeon.function(ADD)
def aten_add(g: Graph, x: Tensor, y: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x + alpha · y, y in the type of x."""
    return g.add(x, g.mul(g.cast_like(y, x), alpha))


@rule(patterns=[aten_add])
def written_out(g: Graph, x: Tensor, y: Tensor, alpha: float) -> Tensor:
    """Straight to Add where alpha is 1."""
    return g.add(x, y) if alpha == 1 else aten_add.inline(g, x, y, alpha=alpha)


class Sums(torch.nn.Module):
    """All ways to add."""

    def forward(self, x, y):
        a = torch.add(x, y, alpha=2.5)
        b = a + 1
        c = b.clone()
        c += 3
        return c + torch.add(x, y, alpha=2)


@pytest.fixture(scope="module", params=EXPORTERS)
def sums(request):
    """Placeholders in place of all additions, by either exporter."""
    return surgeon.torch.export(
        Sums(), (X, X + 1), placeholders={"aten::add.Tensor": ADD}, exporter=request.param
    ).model


@pytest.fixture
def torch_computes(forget_implementations):
    """torch's own operator stands in for a placeholder in proofs."""
    return surgeon.torch.implement


class TestOnesOwnAdd:
    """`aten::add.Tensor` with alpha, x + 1 and in-place adds arrive at one placeholder."""

    def test_kept_as_a_function(self, sums, tmp_path, torch_computes):
        torch_computes("aten::add.Tensor", ADD)
        after, report = surgeon.rewrite(sums, aten_add, require_proof=True)
        assert report.counts == {"custom_aten_add": 5}
        (function,) = after.functions
        assert {item.version for item in function.opset_import} == {
            item.version for item in after.opset_import if not item.domain
        }
        onnx.checker.check_model(after, full_check=True)
        as_torch_has_it(after, tmp_path / "a.onnx", Sums(), (X, X + 1))

    def test_written_out(self, sums, tmp_path, torch_computes):
        torch_computes("aten::add.Tensor", ADD)
        after, report = surgeon.rewrite(sums, written_out, require_proof=True)
        assert len(report.sites) == 5
        assert not after.functions
        assert (ops(after.graph).count("Add"), ops(after.graph).count("Mul")) == (5, 2)
        as_torch_has_it(after, tmp_path / "a.onnx", Sums(), (X, X + 1))

    def test_kept_and_then_written_out(self, sums, tmp_path):
        called, _ = surgeon.rewrite(sums, aten_add, check="none")
        after, report = surgeon.rewrite(called, inline="all", require_proof=True)
        assert report.counts == {f"inline {ADD}": 5}
        assert not after.functions
        as_torch_has_it(after, tmp_path / "a.onnx", Sums(), (X, X + 1))
