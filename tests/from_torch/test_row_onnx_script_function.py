"""What torch's own exporters make of an ONNX Script function, and what is told of one that is older than its ops."""

import onnx
import onnxruntime
import onnxscript
import pytest
import torch
from onnxscript import opset14
from torch.onnx import register_custom_op_symbolic, unregister_custom_op_symbolic

import surgeon
import surgeon.torch
from tests.from_torch.test_onnxscript_function import DOMAIN, NUMBERS, SELU, Activated, X, custom
from tests.from_torch.test_onnxscript_function import Selu as Mended
from tests.models import ops


@onnxscript.script(custom, default_opset=opset14)
def Selu(X: onnxscript.FLOAT) -> onnxscript.FLOAT:  # noqa: N802, N803 - as the tutorial has it
    alpha = 1.67326
    gamma = 1.0507
    alphaX = opset14.CastLike(alpha, X)  # noqa: N806
    gammaX = opset14.CastLike(gamma, X)  # noqa: N806
    neg = gammaX * (alphaX * opset14.Exp(X) - alphaX)
    pos = gammaX * X
    zero = opset14.CastLike(0, X)
    return opset14.Where(X <= zero, neg, pos)  # noqa: SIM300


def by_torchscript(path, symbolic, opset, version=1):
    """Export by torch alone, with a symbolic for aten::selu."""
    options = {"opset_version": opset, "custom_opsets": {DOMAIN: version}, "input_names": ["x"]}
    register_custom_op_symbolic("aten::selu", symbolic, opset)
    try:
        torch.onnx.export(Activated().eval(), (X,), path, dynamo=False, **options)
    finally:
        unregister_custom_op_symbolic("aten::selu", opset)
    return onnx.load(path)


def sizes(model):
    """The sizes of what the calls return."""
    outputs = {name for node in model.graph.node if node.op_type == "Selu" for name in node.output}
    infos = [info for info in (*model.graph.value_info, *model.graph.output) if info.name in outputs]
    return [[size.dim_value for size in info.type.tensor_type.shape.dim] for info in infos]


def test_a_body_at_opset_14_is_exported_and_then_refused(tmp_path):
    """The exporter does not look; ONNX Runtime, `check`, the rewrite and `surgeon.function` do."""
    path = tmp_path / "a.onnx"
    model = by_torchscript(path, lambda g, x: g.onnxscript_op(Selu, x).setType(x.type()), 14)
    with pytest.raises(Exception, match="No Op registered for CastLike with domain_version of 14"):
        onnxruntime.InferenceSession(path)
    reasons = [finding.reason for finding in surgeon.check(model, target="ort")]
    assert any("does not have this op; opset 15 added it" in reason for reason in reasons)
    with pytest.raises(surgeon.OpsetError, match="CastLike exists from opset 15.*Write the body at opset 15"):
        surgeon.function(Selu)
    with pytest.raises(surgeon.GraphError, match="uses CastLike, which exists from opset 15; write the body at"):
        surgeon.rewrite(model, "selu", inline=SELU)


def test_the_rule_by_its_name_reads_the_constants_of_the_mended_body(tmp_path):
    model = by_torchscript(tmp_path / "a.onnx", lambda g, x: g.onnxscript_op(Mended, x).setType(x.type()), 18)
    after, _ = surgeon.rewrite(model, "selu", inline=SELU, require_proof=True)
    found = [node for node in after.graph.node if node.op_type == "Selu"]
    assert [node.domain for node in found] == ["", ""]
    assert {item.name: item.f for item in found[0].attribute} == pytest.approx(NUMBERS)
    assert surgeon.torch.compare(Activated().eval(), after, (X,), rtol=1e-4, atol=1e-4)


def test_set_type_reports_the_sizes(tmp_path):
    """Without it each size is unknown."""
    bare = by_torchscript(tmp_path / "a.onnx", lambda g, x: g.onnxscript_op(Mended, x), 18)
    reported = by_torchscript(tmp_path / "b.onnx", lambda g, x: g.onnxscript_op(Mended, x).setType(x.type()), 18)
    assert not any(size for one in sizes(bare) for size in one)
    assert sizes(reported) == [[2, 4], [2, 4]]


def test_custom_opsets_has_the_version_of_the_function(tmp_path):
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="to ONNX opset version 3 is not supported"):
        by_torchscript(tmp_path / "a.onnx", lambda g, x: g.onnxscript_op(Mended, x).setType(x.type()), 18, version=3)


def test_the_dynamo_exporter_writes_the_function_out(tmp_path):
    """Hence a placeholder first, and the body after the export."""
    table = {torch.ops.aten.selu.default: Mended}
    path = tmp_path / "a.onnx"
    torch.onnx.export(Activated().eval(), (X,), path, dynamo=True, opset_version=18, custom_translation_table=table)
    model = onnx.load(path)
    assert not model.functions
    assert "Selu" not in ops(model.graph)
    after, _ = surgeon.rewrite(model, "selu", require_proof=True)
    assert ops(after.graph).count("Selu") == 2
