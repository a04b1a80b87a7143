"""From a selection to a rule: what prevents a match, and the result of `try_rule`."""

import onnx
import pytest

import surgeon
from surgeon.errors import UsageError
from surgeon.testing import parse
from tests.command_line import ROOT, files_in, run

DISTILBERT = ROOT / "notebooks" / "models" / "tiny_distilbert.onnx"
FACTORS = ["two"] * 10 + ["three"]


def stacked():
    """A block eleven times, the last with another factor: more than a capture compares of its own accord."""
    text = "".join(
        f"a{at} = Mul (x{at}, {name}) b{at} = Add (a{at}, one) c{at} = Relu (b{at}) "
        f"x{at + 1} = Softmax <axis = -1> (c{at}) "
        for at, name in enumerate(FACTORS)
    )
    stored = "float two = {2.0}, float three = {3.0}, float one = {1.0}"
    head = '<ir_version: 8, opset_import: ["" : 18]>'
    return parse(f"{head} g (float[n, 4] x0) => (float[n, 4] x{len(FACTORS)}) <{stored}> {{ {text} }}")


def test_what_is_fixed_is_reported_with_what_it_holds_back():
    """Each number as if it were free; what differs among the sites that were compared is free by itself."""
    found = surgeon.capture(stored := stacked(), ["x0"], ["x1"], "shifted")
    assert (found.sites, found.compared) == (10, 8)
    assert {one.what: one.sites for one in found.looser} == {
        "2.0 in mul": 11, "1.0 in add": 10, "axis=-1 of softmax": 10
    }
    assert (set(found.fixed), found.free) == ({one.what for one in found.looser}, ("Tensor x",))
    assert "+1" in found._repr_html_()
    assert "data:image/svg+xml" in found._repr_html_()
    other = surgeon.capture(stored, ["x10"], ["x11"], "shifted")
    assert (other.sites, "2.0 in mul" in other.fixed) == (11, False)


def test_the_command_reports_what_would_match_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(stacked(), "in.onnx")
    found = run("capture", "in.onnx", "--from", "x0", "--to", "x1", "--name", "shifted")
    assert "if 2.0 in mul is captured, it matches 11\n" in found.output
    assert "1.0 in add" not in found.output


def test_a_captured_rule_can_be_tried_as_it_stands():
    """Its skeleton writes an op that nothing runs: its proof compares it with its own pattern, and says so."""
    rule = surgeon.capture(DISTILBERT, ["linear_4"], ["gelu"], "activation").rule
    found = surgeon.try_rule(rule, DISTILBERT)
    assert (found.count, found.rule) == (4, "activation")
    assert any(not proof.independent for proof in found.report.proofs) or found.outcome == "unproved"


def test_a_rule_is_tried_and_nothing_is_written(tmp_path, monkeypatch):
    """Sites with proofs, and misses with their first difference, in a file and in memory alike."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.onnx").write_bytes(DISTILBERT.read_bytes())
    for model in ("in.onnx", onnx.load(DISTILBERT)):
        found = surgeon.try_rule("skip_layer_norm", model)
        assert (found.outcome, found.count) == ("proved", 6)
        assert [miss.kind for miss in found.explanation.misses][:1] == ["shape condition"]
        assert (found.report.written, found.report.output) == (False, "")
    assert files_in(tmp_path) == {"in.onnx"}
    text = found._repr_html_()
    assert "fires at 6 sites; nothing was written" in text
    assert "both inputs of the Add must have the same known shape" in text


def tripled(g: surgeon.Graph, x: surgeon.Tensor) -> surgeon.Tensor:
    return g.mul(x, 3.0)


def test_a_cell_that_is_run_again_replaces_its_rule():
    """The rule that is tried is the one that was written last; what is wrong is told with its numbers."""
    model = parse("""<ir_version: 8, opset_import: ["" : 18]> g (float[n] x) => (float[n] y) <float c = {3.0}> {
        y = Mul (x, c) }""")
    outcomes = []
    for factor in (5.0, 3.0):

        @surgeon.rule(patterns=[tripled], target="any")
        def thrice(g: surgeon.Graph, x: surgeon.Tensor, factor=factor) -> surgeon.Tensor:
            return g.add(x, g.mul(x, factor - 1))

        outcomes.append(surgeon.try_rule(thrice, model).outcome)
    assert outcomes == ["failed", "proved"]


def test_one_rule_at_a_time():
    with pytest.raises(UsageError, match=r"^Expected one rule, but "):
        surgeon.try_rule("ort", DISTILBERT)
