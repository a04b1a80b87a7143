"""surgeon convert as people meet it: the command, bad input, its report, and rules that run first."""

import os

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.errors import CheckFailed, UsageError
from surgeon.file import temporary_model
from tests.command_line import files_in, result_in, run
from tests.half_models import model, planted
from tests.onnx_cases import onnx_cases


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"keep": ["op:Nonesuch"]}, "matches 'op:Nonesuch'"),
        ({"keep": ["nothing"]}, "Invalid selection of nodes"),
        ({"to": "int16"}, "to 'int16'. Known dtypes"),
        ({"to": "float16", "from_": "int64"}, "Cannot convert 'int64'"),
        ({"max_error": 0.0}, "must be above 0"),
        ({"io": "half"}, "Choose keep or convert"),
        ({"ep": "gpu"}, "Unknown execution provider 'gpu'. Choose one of"),
    ],
)
def test_bad_input(settings, sentence):
    with pytest.raises(UsageError, match=sentence):
        surgeon.convert(planted(), **settings)


def test_the_command_line(tmp_path):
    onnx.save(planted(2e4), tmp_path / "in.onnx")
    result = run("convert", tmp_path / "in.onnx", tmp_path / "out.onnx", "--report", tmp_path / "r.json")
    assert result.exit_code == 0, result.output
    for words in ("float32 → float16", "'c' reaches", "PROVED", "This proves dtypes and value ranges"):
        assert words in result.output.replace("\n", " ")
    assert result_in((tmp_path / "r.json").read_text())["outcome"] == "proved"
    bad = run("convert", tmp_path / "in.onnx", tmp_path / "bad.onnx", "--keep", "op:Foo")
    assert (bad.exit_code, (tmp_path / "bad.onnx").exists()) == (2, False)
    failed = run("convert", tmp_path / "in.onnx", tmp_path / "bad.onnx", "--keep", "op:Tanh", "--max-error", "1e-9")
    assert (failed.exit_code, (tmp_path / "bad.onnx").exists()) == (1, False)


def test_rules_run_first_where_nothing_may_be_written_beside_the_source(tmp_path, monkeypatch):
    """The model between the two lies elsewhere then; nothing of it is left."""
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    out.mkdir()
    body = "h = Mul(x, half) r = Div(x, root) e = Erf(r) p = Add(e, one) y = Mul(h, p)"
    onnx.save(model(body, weights="<float half = {0.5}, float root = {1.4142135}, float one = {1}>"), home / "in.onnx")
    asked = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: asked(path, mode) and str(path) != str(home))
    folders = []
    between = temporary_model.temporary_path
    monkeypatch.setattr(temporary_model, "temporary_path", lambda *given: folders.append(given[0]) or between(*given))
    _, report = surgeon.convert(home / "in.onnx", output=out / "half.onnx", rules="gelu", keep=())
    assert {folder.parent for folder in folders} == {out}
    assert (report.rules, report.written) == ({"gelu": 1}, True)
    assert (files_in(home), files_in(out)) == ({"in.onnx"}, {"half.onnx"})


def test_a_report_is_shown_as_a_page_too(tmp_path):
    onnx.save(planted(2e4), tmp_path / "in.onnx")
    result = run("convert", tmp_path / "in.onnx", tmp_path / "out.onnx", "--report", tmp_path / "r.html", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "reaches" in page
    assert "PROVED" in page


def test_a_model_that_answers_at_random_is_unproved():
    _, report = surgeon.convert(model("p = Sigmoid(x) b = Bernoulli(p) y = Mul(b, x)"))
    assert report.outcome == "unproved"
    assert report.reason.startswith("The original is not deterministic: two runs differ by ")


def test_why_onnx_runtime_refuses_a_converted_model_is_reported(monkeypatch):
    """Also where keeping more was tried: it cannot load a function of its own in bfloat16."""
    monkeypatch.setattr("surgeon.precision.planning.node_dtypes.UNSUPPORTED_BODY_DTYPES", {})
    case = next(case for case in onnx_cases() if case.name == "test_sce_mean_weight_ii")
    with pytest.raises(CheckFailed, match="The converted model does not load: .*NegativeLogLikelihoodLoss"):
        surgeon.convert(case.model, "bfloat16", max_error=0.1)


def test_a_choice_that_depends_on_roundings_is_reported(tmp_path):
    """A router of experts, say: no arithmetic keeps a near tie."""
    made = model("a = Tanh(x) v, y = TopK(a, k)", "(float[N, 4] x) => (int64[N, 1] y)", weights="<int64[1] k = {1}>")
    onnx.save(made, tmp_path / "in.onnx")
    reported = run("convert", tmp_path / "in.onnx", tmp_path / "out.onnx").output
    assert "by values that float16 rounds, and may select another element if two are almost equal" in reported
    assert "choose" not in "".join(surgeon.convert(model("y = Tanh(x)"))[1].told)


def test_a_model_that_answers_nothing_is_unproved():
    _, report = surgeon.convert(model("n = Sub(x, x) a = Div(n, n) y = Mul(a, x)"))
    assert report.outcome == "unproved"
    assert report.reason == "On generated inputs, the original returns no numbers"


@pytest.mark.parametrize("to", ["float16", "bfloat16"])
def test_a_rounding_at_each_node_runs_with_converted_inputs_too(to):
    """The model that rounds is of the old dtype, its inputs and outputs too."""
    _, report = surgeon.convert(model("a = Exp(x) y = Mul(a, a)"), to, io="convert", max_error=0.05)
    assert report.outcome == "proved"
    assert "with a rounding at each node" in report.oracle


def test_keep_takes_all_its_forms_at_once(tmp_path):
    """With commas or several times; shell patterns; what no rule fits any more, as it ran before, names nothing."""
    gelu = "h = Mul(x, half) r = Div(x, root) e = Erf(r) p = Add(e, one) g = Mul(h, p)"
    weights = "<float half = {0.5}, float root = {1.4142135}, float one = {1}>"
    onnx.save(model(f"{gelu} s = Softmax(g) t = Tanh(s) y = Exp(t)", weights=weights), tmp_path / "in.onnx")
    command = ("convert", tmp_path / "in.onnx", tmp_path / "out.onnx", "--report", tmp_path / "r.json", "--force")
    result = run(*command, "--keep", "op:Soft*,name:t,rule:gelu,auto", "--keep", "op:Exp")
    assert result.exit_code == 0, result.output
    kept = {(item["op"], item["reason"]) for item in result_in((tmp_path / "r.json").read_text())["kept"]}
    by_rule = {(op, "requested by rule:gelu") for op in ("Mul", "Div", "Erf", "Add")}
    others = {("Softmax", "requested by op:Soft*"), ("Tanh", "requested by name:t"), ("Exp", "requested by op:Exp")}
    assert kept == by_rule | others
    assert run(*command, "--keep", "op:Gelu", "--rules", "gelu").exit_code == 0
    gone = run(*command, "--keep", "rule:gelu", "--rules", "gelu")
    assert (gone.exit_code, "matches 'rule:gelu'" in gone.output) == (2, True)


def test_where_all_is_kept_that_is_said(tmp_path):
    """And the file is the same."""
    onnx.save(model("y = Mul(x, x)", opset=11), tmp_path / "in.onnx")
    result = run("convert", tmp_path / "in.onnx", tmp_path / "out.onnx", "--to", "bfloat16")
    assert "UNCHANGED  nothing in it can be bfloat16" in result.output
    assert "Mul supports bfloat16 from opset 13 of ai.onnx: surgeon upgrade IN OUT --opset 13" in result.output
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "in.onnx").read_bytes()
    onnx.save(model("y = Mul(x, x)", "(float16[N] x) => (float16[N] y)"), tmp_path / "in.onnx")
    assert "nothing in it is float32" in run("convert", tmp_path / "in.onnx", tmp_path / "out.onnx", "--force").output


@pytest.mark.parametrize(
    ("name", "arrays", "sentence"),
    [
        ("lacking", {"x": np.ones((2, 4), np.float32)}, "has no array for input 'm'"),
        ("wide", {"x": np.ones((2, 4)), "m": np.ones(4, np.float32)}, "Input 'x' is float64"),
        ("long", {"x": np.ones((2, 5), np.float32), "m": np.ones(4, np.float32)}, "has shape [2, 5]"),
    ],
)
def test_inputs_that_do_not_fit_are_reported(name, arrays, sentence, tmp_path):
    onnx.save(model("y = Mul(x, m)", "(float[N, 4] x, float[4] m) => (float[N, 4] y)"), tmp_path / "in.onnx")
    np.savez(tmp_path / f"{name}.npz", **arrays)
    archive = run("convert", tmp_path / "in.onnx", tmp_path / "out.onnx", "--inputs", tmp_path / f"{name}.npz")
    assert archive.exit_code == 2
    assert sentence in archive.output.replace("\n", " ")
    assert files_in(tmp_path) == {"in.onnx", f"{name}.npz"}
