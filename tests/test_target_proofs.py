"""Proofs run replacements under the runtime of the target; where it is not here, the report names what ran them."""

import json

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.display.blocks import plain_text
from surgeon.display.registry import document_of
from surgeon.proof.check_options import CheckOptions
from surgeon.runtime.numerics.allowances import JudgeSettings
from surgeon.runtime.processes import worker
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.runtime.sessions.provider_runtime import ProviderRuntime, find_provider
from surgeon.runtime.tensorrt import isolated_engine, library
from surgeon.target_registry import RuntimeMissing
from surgeon.targets import tensorrt
from surgeon.testing import parse
from tests.command_line import run
from tests.test_engines import FAULTS, LIBRARY, has_gpu, needs_parser

GELU = (
    '<ir_version: 9, opset_import: ["" : 20]> g (float[n, 8] x) => (float[n, 8] y) '
    "<float half = {0.5}, float root = {1.4142135}, float one = {1}> "
    "{ d = Div(x, root)  e = Erf(d)  a = Add(e, one)  b = Mul(x, a)  y = Mul(b, half) }"
)
SLOW = CheckOptions(proof_time=60.0)


def rewritten(target="tensorrt", options=SLOW, **more):
    _, report = surgeon.rewrite(parse(GELU), "gelu", target=target, options=options, **more)
    return report


def outcome(report):
    """The outcome and the notes of the summary."""
    (label, first), *rows = document_of(report).summary
    notes = [plain_text(text) for label, text in rows if plain_text(label) in ("note", "")]
    return "; ".join((f"{plain_text(label)} {plain_text(first)}", *notes))


@pytest.fixture
def on_fake_gpu(monkeypatch, request):
    """Engines run by `tests.fake_gpu`, in children that know which fault they have."""
    monkeypatch.setattr(isolated_engine, "MODULE", "tests.fake_gpu")
    if fault := getattr(request, "param", ""):
        monkeypatch.setenv("SURGEON_TEST_FAULT", fault)
    worker.stop()
    yield fault
    worker.stop()


@needs_parser
def test_the_target_runs_the_replacement(on_fake_gpu):
    report = rewritten()
    (proof,) = report.proofs
    assert (report.outcome, report.runtime, report.not_on_target) == ("proved", f"TensorRT-RTX {LIBRARY.version}", "")
    assert (proof.oracle, proof.not_on_target, proof.independent) == (report.runtime, "", True)
    assert outcome(report).startswith("PROVED 1 of 1 site; largest error ")
    assert rewritten().remembered == 0, "what ran on a GPU is no proof for another one"


@needs_parser
@pytest.mark.parametrize("on_fake_gpu", ["answer", "one size"], indirect=True)
def test_a_wrong_answer_of_the_target_fails(on_fake_gpu):
    """Also where the runtime is wrong in the original nodes too: only special numbers may differ by runtime."""
    report = rewritten(keep_going=True)
    assert report.outcome == "failed"
    assert "instead of" in report.rolled_back[0].reason


@needs_parser
@pytest.mark.parametrize("on_fake_gpu", ["no NaN"], indirect=True)
def test_special_numbers_are_as_the_target_treats_them_in_the_original(on_fake_gpu):
    report = rewritten()
    assert report.outcome == "proved", report.rolled_back[0].reason
    assert report.proofs[0].oracle == report.runtime


@needs_parser
@pytest.mark.parametrize("on_fake_gpu", ["build", "load", "run"], indirect=True)
def test_what_the_target_refuses_another_engine_runs(on_fake_gpu):
    report = rewritten()
    (proof,) = report.proofs
    assert (report.outcome, proof.oracle) == ("proved", "ONNX Runtime")
    assert FAULTS[on_fake_gpu] in proof.not_on_target
    assert f"; ONNX Runtime ran the replacement, as {FAULTS[on_fake_gpu]}" in outcome(report)
    assert report.to_dict()["proofs"][0]["not_on_target"] == proof.not_on_target


@needs_parser
def test_a_plugin_that_the_runtime_lacks_is_run_by_an_implementation(on_fake_gpu, tmp_path, forget_implementations):
    """TensorRT-RTX brings no plugins, so its parser refuses the replacement alone."""
    (tmp_path / "plugins.toml").write_text('[Twice]\ninputs = { x = "float32" }\noutputs = { y = "x" }\n')
    body = 'import surgeon\n\n@surgeon.implements("{}")\ndef f(x, **_):\n    return x + x\n'
    for name, op in (("first.py", "mylib::twice"), ("second.py", "trt.plugins::Twice")):
        (tmp_path / name).write_text(body.format(op))
    text = '<ir_version: 9, opset_import: ["" : 17, "mylib" : 1]> g (float[n, 4] x) => (float[n, 4] y) '
    onnx.save(parse(text + "{ y = mylib.twice(x) }"), tmp_path / "in.onnx")
    custom = [f"--custom-ops={tmp_path / name}" for name in ("plugins.toml", "first.py", "second.py")]
    arguments = [str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), "--plugin", "mylib::twice=Twice"]
    done = run("rewrite", *arguments, "--target", "tensorrt", *custom, "--json")
    (found,) = [item["result"] for item in json.loads(done.stdout)["results"]]
    assert (found["outcome"], found["runtime"]) == ("proved", f"TensorRT-RTX {LIBRARY.version}")
    (proof,) = found["proofs"]
    assert proof["oracle"].startswith("Python implementation of trt.plugins::Twice")
    assert "TensorRT rejects the model" in proof["not_on_target"]


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
def test_without_the_runtime_the_outcome_names_what_ran(monkeypatch):
    if LIBRARY is not None:
        report = rewritten()
        assert report.not_on_target == f"{LIBRARY.title} finds no GPU"
        assert outcome(report).endswith("; ONNX Runtime ran the replacement, as TensorRT-RTX finds no GPU")
    nothing = library.Library("tensorrt-rtx", "TensorRT-RTX", ("no_module_of_this_name",), ())
    monkeypatch.setattr(isolated_engine, "LIBRARIES", (nothing,))
    report = rewritten()
    assert outcome(report).endswith("; ONNX Runtime ran the replacement, as TensorRT is not installed")
    assert report.to_dict()["not_on_target"] == "TensorRT is not installed"


def test_a_target_without_a_runtime_says_so(monkeypatch):
    from dataclasses import replace

    monkeypatch.setattr(tensorrt, "TARGET", replace(tensorrt.TARGET, title="Acme", proof_runtime=None))
    surgeon.target_registry._own.cache_clear()
    try:
        assert outcome(rewritten()).endswith(
            "; ONNX Runtime ran the replacement, as surgeon does not know a runtime for Acme"
        )
    finally:
        monkeypatch.undo()
        surgeon.target_registry._own.cache_clear()


@pytest.mark.parametrize("target", ["ort", "onnx", "contrib"])
def test_under_onnx_runtime_nothing_is_to_be_said(target):
    report = rewritten(target)
    assert (report.runtime, report.not_on_target) == ("", "")
    assert outcome(report).startswith("PROVED 1 of 1 site; ")
    assert "ran the replacement" not in outcome(report)


def test_a_provider_runs_it_where_onnx_runtime_has_it(monkeypatch):
    """The CPU's stands for another one, which is not here; the site runs in a process beside that of its proof."""
    found = ProviderRuntime("CPUExecutionProvider", "the Other provider", (), 60.0)
    with pytest.raises(RuntimeMissing, match="the installed ONNX Runtime has no CUDA provider"):
        find_provider("cuda", (), 60.0)
    assert [find_provider(name, (), 60.0) for name in (None, "any", "cpu", "CPUExecutionProvider")] == [None] * 4
    assert outcome(rewritten("ort", ep="cuda")).endswith("as the installed ONNX Runtime has no CUDA provider")
    monkeypatch.setattr("surgeon.runtime.sessions.provider_runtime.find_provider", lambda *_: found)
    report = rewritten("ort", ep="cuda")
    assert report.runtime == report.proofs[0].oracle == found.title
    assert found.title.startswith("the Other provider of ONNX Runtime 1.")
    broken = ProviderRuntime("CUDAExecutionProvider", "the CUDA provider", (), 60.0)
    with pytest.raises(SessionError, match="ONNX Runtime's CUDA provider does not work on this machine"):
        broken.open(parse("(float[2] x) => (float[2] y) { y = Relu(x) }"))


@pytest.mark.parametrize(("precision", "ok"), [("", False), ("float32", False), ("float16", True), ("bfloat16", True)])
def test_rounding_is_that_of_the_target(precision, ok):
    """An engine that computes in half precision may err as half precision does, and no more than that."""
    from surgeon.runtime.numerics.tensor_judge import judge_tensor

    right = np.linspace(0.5, 2, 64, dtype=np.float32)
    settings = JudgeSettings(right.dtype, precision=precision)
    found = judge_tensor("y", right, right.astype(np.float16).astype(np.float32), right.astype("f8"), 0.0, settings)
    assert found.ok == ok
    assert not judge_tensor("y", right, right + np.float32(0.3), right.astype("f8"), 0.0, settings).ok
    assert settings.reason == f"{precision or 'float32'} rounds"
    assert JudgeSettings(np.dtype(np.float16), precision="float32").rounding == np.float16
    assert JudgeSettings(np.dtype(np.int64), precision="float16").rounding == np.int64
