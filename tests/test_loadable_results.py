"""No command writes a model that ONNX Runtime does not load if it loads the original."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import surgeon
from surgeon import CheckFailed, Graph, Tensor
from surgeon.proof.model import load_check
from surgeon.testing import parse
from tests.command_line import run

CHECKS = ("none", "sites", "model", "both")


def model_of(body: str = "y = Add(x, x)", dtype: str = "float", opset: int = 18) -> onnx.ModelProto:
    head = f'<ir_version: 9, opset_import: ["": {opset}, "acme": 1]> g ({dtype}[n, 4] x) => ({dtype}[n, 4] y)'
    return parse(f"{head} {{ {body} }}")


def loads(model: onnx.ModelProto | Path) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    try:
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "onnxruntime" not in type(error).__module__:
            raise
        return False
    return True


def twice(g: Graph, x: Tensor) -> Any:
    return g.add(x, x)


def writing(write: Callable[[Graph, Tensor], Any]) -> Any:
    """A rule that writes this in place of x + x."""

    @surgeon.rule(patterns=[twice], target="any")
    def written(g: Graph, x: Tensor) -> Any:
        """Write what may not load."""
        return write(g, x)

    return written


WITHOUT_KERNELS = {
    "Swish": (lambda g, x: g.op("Swish", x), "float", 25),
    "Elu": (lambda g, x: g.op("Elu", x), "double", 20),
    "Softplus": (lambda g, x: g.op("Softplus", x), "double", 22),
    "Gelu": (lambda g, x: g.op("Gelu", x), "double", 20),
    "HardSigmoid": (lambda g, x: g.op("HardSigmoid", g.op("Neg", x)), "double", 23),
}


@pytest.mark.parametrize("target", ["ort", "onnx"])
@pytest.mark.parametrize("case", WITHOUT_KERNELS)
def test_a_rule_writes_no_node_without_a_kernel(case: str, target: str) -> None:
    """The table of kernels tells it before anything is written, and the near miss says it."""
    write, dtype, opset = WITHOUT_KERNELS[case]
    model = model_of(dtype=dtype, opset=opset)
    made, report = surgeon.rewrite(model, writing(write), target=target, check="none")
    assert (report.sites, report.rolled_back) == ([], [])
    assert f"no kernel for ai.onnx::{case} in {dtype} at opset {opset}" in report.misses[0].reason
    assert made == model


@pytest.mark.parametrize("check", CHECKS)
def test_a_site_that_keeps_the_model_from_loading_is_rolled_back(tmp_path: Path, check: str) -> None:
    """The others stay, and one sentence names the rule, the node and ONNX Runtime's reason."""
    rules = [writing(lambda g, x: g.op("Reshape", x, [3, 5, -1])), "gelu"]
    gelu = "d = Div(s, r) e = Erf(d) p = Add(e, one) m = Mul(s, p) y = Mul(m, h)"
    text = f"""<ir_version: 9, opset_import: ["": 18]> g (float[2, 4] x) => (float[2, 4] y)
        <float h = {{0.5}}, float one = {{1}}, float r = {{1.4142135}}> {{ s = Add(x, x) {gelu} }}"""
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(parse(text), path)
    assert loads(path)
    with pytest.raises(CheckFailed, match="1 of 2 sites was rolled back"):
        surgeon.rewrite(path, rules, output=out, check=check)
    assert loads(out)
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Add", "Gelu"]


def test_a_result_without_a_site_to_blame_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where ONNX Runtime refuses the one and the other."""
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model_of("a = Add(x, x) y = Swish(a)", opset=24), path)
    # As if no table had it.
    monkeypatch.setattr("surgeon.pipeline.upgrading.upgrade._UpgradePlan._lacking", lambda *_: None)
    found = run("upgrade", path, out, "--opset", 25, "--check", "none")
    assert found.exit_code == 1
    assert (
        "The upgraded model does not load: ONNX Runtime loads the original but not the result" in found.output
    )
    assert "Swish" in found.output
    assert not out.exists()
    report = surgeon.rewrite(path, writing(lambda g, x: g.mul(x, 2.0)), output=out, upgrade=25, check="none")[1]
    assert report.not_upgraded.startswith("The upgraded model does not load: ")
    assert loads(out)


def test_a_node_without_a_name_is_named_by_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surgeon.pipeline.upgrading.upgrade._UpgradePlan._lacking", lambda *_: None)
    onnx.save(model_of("a = Swish(x) y = Swish(a)", opset=24), tmp_path / "in.onnx")
    with pytest.raises(CheckFailed, match="node with name '': Swish at a, y; nothing was written"):
        surgeon.upgrade(tmp_path / "in.onnx", 25, tmp_path / "out.onnx", check="none")


def test_what_edits_and_merges_make_is_loaded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surgeon.pipeline.upgrading.upgrade._UpgradePlan._lacking", lambda *_: None)
    swish, other, out = model_of("y = Swish(x)", opset=24), model_of("y = Abs(x)", opset=25), tmp_path / "out.onnx"
    onnx.save(swish, tmp_path / "in.onnx")
    edits = [surgeon.edits.Rename("x", "z"), surgeon.edits.RaiseOpset(25)]
    for given, settings in ((swish, {}), (tmp_path / "in.onnx", {"output": out})):
        with pytest.raises(CheckFailed, match="The edited model does not load: .*Swish"):
            surgeon.edit(given, edits, check="none", **settings)
    with pytest.raises(CheckFailed, match="The merged model does not load: .*Swish"):
        surgeon.merge(swish, other, connect={"y": "x"}, check="none")
    assert not out.exists()


UNLOADABLE = model_of("i = Identity(x) b = Exp(i) c = Abs(b) a = acme.Snake(c) y = Add(c, c)")
NEITHER = "ONNX Runtime loads neither the original nor the result: "


@pytest.mark.parametrize(
    "command",
    [
        ("rewrite", "--rules", "cleanup"),
        ("upgrade", "--opset", "21"),
        ("edit", "--rename", "x=z"),
        ("convert", "--to", "float16"),
    ],
    ids=lambda command: command[0],
)
def test_a_model_that_did_not_load_before_is_written_and_that_is_said(tmp_path: Path, command: tuple[str, ...]) -> None:
    name, *options = command
    onnx.save(UNLOADABLE, tmp_path / "in.onnx")
    found = run(name, tmp_path / "in.onnx", tmp_path / "out", *options, "--check", "none")
    assert found.exit_code == 0, found.output
    assert (tmp_path / "out").exists()
    assert NEITHER in found.output.replace("\n", " ")


def test_foreign_ops_and_kernels_of_another_provider_may_be_lacking(tmp_path: Path) -> None:
    """A plugin loads nowhere here; and `--ep any` asks nobody for a kernel."""
    made, report = surgeon.rewrite(model_of(), writing(lambda g, x: g.op("acme::Snake", x)), check="none")
    assert (report.count("written"), report.refused, loads(made)) == (1, "", False)
    swish = writing(lambda g, x: g.op("Swish", x))
    made, report = surgeon.rewrite(model_of(opset=25), swish, ep="any", check="none")
    assert (report.count("written"), loads(made)) == (1, False)


def test_a_model_that_takes_too_long_to_load_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from surgeon.runtime.sessions.ort_session import SessionError

    for refused in (SessionError("late", is_unsupported=True, hit_limit=True), SessionError("full", lacks="memory")):
        opening = "surgeon.runtime.sessions.isolated_session.IsolatedRuntime.open"
        monkeypatch.setattr(opening, lambda *_, _refused=refused, **__: _raise(_refused))
        assert load_check.loading([model_of()], model_of("y = Abs(x)"), surgeon.CheckOptions()) == ("", "")


def _raise(error: Exception) -> None:
    raise error


def test_large_weights_are_not_read_to_load_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime gets the file's own bytes by place; what is wrong with the rest it says all the same."""
    seen = []
    opened = load_check.self_referencing_model
    monkeypatch.setattr(load_check, "LARGE", 1 << 20)
    monkeypatch.setattr(load_check, "self_referencing_model", lambda model: seen.append(opened(model)) or seen[-1])
    weight = np.ones((4, 1 << 18), np.float32)
    model = model_of("t = MatMul(x, w) z = Transpose(w) y = MatMul(t, z)")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model, path)
    surgeon.edit(path, surgeon.edits.Rename("x", "z0"), output=out, check="none")
    assert loads(out)
    (made,) = seen
    assert made.graph.initializer[0].external_data[0].key == "location"
    assert made.ByteSize() < 10_000
    monkeypatch.setattr("surgeon.pipeline.upgrading.upgrade._UpgradePlan._lacking", lambda *_: None)
    model.graph.node.append(onnx.helper.make_node("Swish", ["y"], ["s"]))
    model.opset_import[0].version = 24
    onnx.save(model, path)
    with pytest.raises(CheckFailed, match="Swish"):
        surgeon.edit(path, surgeon.edits.RaiseOpset(25), output=out, check="none")


def test_a_conversion_to_bfloat16_is_for_another_provider(tmp_path: Path) -> None:
    """The CPU provider has hardly a kernel for it; where that provider is named, nodes without a kernel stay."""
    model = model_of("a = Exp(x) y = MatMul(a, w)")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"))
    assert not loads(surgeon.convert(model, to="bfloat16", check="none")[0])
    assert loads(surgeon.convert(model, to="bfloat16", ep="cpu", check="none")[0])
