"""Ops that no runtime here has: what stands in for them in a proof, and that the report says so."""


import onnx
import pytest

import surgeon
from surgeon import CheckOptions, Graph, Tensor, rule
from surgeon.testing import parse
from tests.command_line import result_in, run

ROUNDED = """(float[n, 4] x, float[n, 4] z) => (float[n, 4] y) { a = Add(x, z) y = Round(a) }"""
PLACEHOLDER = """<ir_version: 8, opset_import: ["" : 17, "mylibrary" : 1]> agraph (float[n, 4] x, float[n, 4] z)
    => (float[n, 4] y) { y = mylibrary.addandround_op(x, z) }"""

IMPLEMENTATION = '''
"""What the plugin computes, in numpy."""
import numpy as np
import surgeon

@surgeon.implements("test.customop::AddRound")
def add_round(x, z):
    return np.round(x + z)
'''


@rule(patterns=[lambda g, x, z: g.round(g.add(x, z))])
def add_round(g: Graph, x: Tensor, z: Tensor) -> Tensor:
    """Write the plugin."""
    return g.op("test.customop::AddRound", x, z)


@rule(patterns=[lambda g, x, z: g.op("mylibrary::addandround_op", x, z)])
def from_placeholder(g: Graph, x: Tensor, z: Tensor) -> Tensor:
    """Replace the exporter's placeholder."""
    return g.round(g.add(x, z))


def implementation(folder, text=IMPLEMENTATION):
    """A file of implementations."""
    path = folder / "implementations.py"
    path.write_text(text)
    return path


def test_without_anything_the_rule_s_own_pattern_stands_in_and_proves_nothing():
    _, report = surgeon.rewrite(parse(ROUNDED), add_round)
    (proof,) = report.proofs
    assert (proof.outcome.value, proof.independent) == ("unproved", False)
    assert '@surgeon.implements("test.customop::AddRound")' in proof.reason


def test_inputs_in_another_order_are_not_proved_by_the_rule_itself():
    """The rule's own pattern computes whatever order it writes."""

    @rule(patterns=[lambda g, x, z: g.div(x, g.add(g.abs(z), 1.0))])
    def swapped(g: Graph, x: Tensor, z: Tensor) -> Tensor:
        return g.op("acme::SoftRatio", z, x)

    text = "(float[n] x, float[n] z) => (float[n] y) <float o = {1}> { a = Abs(z) b = Add(a, o) y = Div(x, b) }"
    _, report = surgeon.rewrite(parse(text), swapped)
    assert report.outcome == "unproved"


def test_an_implementation_in_python_is_independent_of_the_rule(tmp_path):
    options = CheckOptions(custom_ops=[implementation(tmp_path)])
    _, report = surgeon.rewrite(parse(ROUNDED), add_round, options=options)
    (proof,) = report.proofs
    assert (proof.outcome.value, proof.independent) == ("proved", True)
    assert proof.oracle == "Python implementation of test.customop::AddRound"


def test_an_implementation_is_for_the_run_that_names_its_file(tmp_path):
    """The next run without it does as if it had never been."""
    options = CheckOptions(custom_ops=[implementation(tmp_path)])
    surgeon.rewrite(parse(ROUNDED), add_round, options=options)
    _, report = surgeon.rewrite(parse(ROUNDED), add_round)
    (proof,) = report.proofs
    assert (proof.outcome.value, proof.independent) == ("unproved", False)


def test_an_implementation_that_computes_something_else_fails_the_site(tmp_path):
    options = CheckOptions(custom_ops=[implementation(tmp_path, IMPLEMENTATION.replace("x + z", "x - z"))])
    with pytest.raises(surgeon.CheckFailed) as caught:
        surgeon.rewrite(parse(ROUNDED), add_round, options=options)
    assert " instead of " in caught.value.report.rolled_back[0].proof.reason


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no such axis')", "no such axis"),
        ("import os; os._exit(3)", "ended"),
        ("return 'text'", "returned"),
    ],
)
def test_an_implementation_that_breaks_is_reported_in_one_sentence(tmp_path, body, said):
    broken = implementation(tmp_path, IMPLEMENTATION.replace("return np.round(x + z)", body))
    with pytest.raises(surgeon.CheckFailed) as caught:
        surgeon.rewrite(parse(ROUNDED), add_round, options=CheckOptions(custom_ops=[broken]))
    reason = caught.value.report.rolled_back[0].proof.reason
    assert said in reason
    assert "test.customop::AddRound" in reason


def test_a_placeholder_with_an_implementation_can_be_proved(tmp_path):
    """The original has no kernel: without an implementation it is unproved, with one it is proved."""
    text = IMPLEMENTATION.replace("test.customop::AddRound", "mylibrary::addandround_op")
    _, report = surgeon.rewrite(parse(PLACEHOLDER), from_placeholder)
    assert report.outcome == "unproved"
    options = CheckOptions(custom_ops=[implementation(tmp_path, text)])
    _, report = surgeon.rewrite(parse(PLACEHOLDER), from_placeholder, options=options)
    assert report.outcome == "proved", report.doubts


def test_custom_ops_at_the_command_line(tmp_path):
    """--custom-ops takes a Python file; the report names the oracle."""
    rules = tmp_path / "rules.py"
    rules.write_text(
        "from surgeon import Graph, Tensor, rule\n"
        "@rule(patterns=[lambda g, x, z: g.round(g.add(x, z))])\n"
        "def add_round(g: Graph, x: Tensor, z: Tensor) -> Tensor:\n"
        "    return g.op('test.customop::AddRound', x, z)\n"
    )
    onnx.save(parse(ROUNDED), tmp_path / "in.onnx")
    report = tmp_path / "report.json"
    args = ("-r", rules, "--custom-ops", implementation(tmp_path), "--report", report)
    result = run("rewrite", tmp_path / "in.onnx", tmp_path / "out.onnx", *args)
    assert result.exit_code == 0, result.stdout
    assert "Python implementation of test.customop::AddRound ran the replacement" in result.stdout
    assert result_in(report.read_text())["proofs"][0]["independent"] is True
    missing = run("rewrite", tmp_path / "in.onnx", tmp_path / "out.onnx", "-r", rules, "--custom-ops", "no.py")
    assert missing.exit_code == 2


@pytest.mark.parametrize("command", ["rewrite", "compare"])
def test_libraries_are_registered_with_every_session(tmp_path, monkeypatch, command):
    """--custom-ops may be given several times; ONNX Runtime gets each library for each model that it opens."""
    import onnxruntime

    given, opened = [], []
    libraries = [tmp_path / "one.so", tmp_path / "two.so"]
    for library in libraries:
        library.write_bytes(b"")
    options, session = onnxruntime.SessionOptions, onnxruntime.InferenceSession
    monkeypatch.setattr(options, "register_custom_ops_library", lambda self, path: given.append((self, path)))

    def watched(model, settings, **rest):
        opened.append(sorted(path for owner, path in given if owner is settings))
        return session(model, settings, **rest)

    monkeypatch.setattr(onnxruntime, "InferenceSession", watched)
    # In this process, where it can be watched.
    monkeypatch.setattr("surgeon.proof.site.site_prover.needs_this_process", lambda _: True)
    monkeypatch.setattr("surgeon.runtime.sessions.isolated_session._is_computed_here", lambda *_: True)
    onnx.save(parse(ROUNDED), tmp_path / "in.onnx")
    (tmp_path / "r.py").write_text(
        "import surgeon\n@surgeon.rule(patterns=[lambda g, x, z: g.round(g.add(x, z))])\n"
        "def same(g, x, z):\n    return g.round(g.max(g.sum(x, z)))\n"
    )
    flags = [part for library in libraries for part in ("--custom-ops", library)]
    if command == "rewrite":
        args = ("rewrite", tmp_path / "in.onnx", tmp_path / "out.onnx", "-r", tmp_path / "r.py", "--check", "both")
    else:
        args = ("compare", tmp_path / "in.onnx", tmp_path / "in.onnx")
    result = run(*args, *flags)
    assert result.exit_code == 0, result.output
    wanted = [str(library) for library in libraries]
    # Original and result, and of the site what went and what came; a reference in float64 has no use for kernels.
    assert sum(found == wanted for found in opened) >= (4 if command == "rewrite" else 2)
