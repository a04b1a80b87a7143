"""The output of a notebook cell: the report of a call, or one sentence for an error."""

import onnx
import onnx_graphsurgeon as gs
import pytest

import surgeon
from surgeon.testing import parse

pytest.importorskip("IPython", reason="it comes with ipykernel")
from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell

TEXT = "(float[n, 4] x) => (float[n, 4] y) { a = Neg(x) b = Exp(a) y = Neg(b) }"
CALLS = {
    "rewrite": lambda model: surgeon.rewrite(model, "gelu", check="none"),
    "rewrite of a gs.Graph": lambda model: surgeon.rewrite(gs.import_onnx(model), "gelu", check="none"),
    "edit": lambda model: surgeon.edit(model, surgeon.edits.StripDoc()),
    "convert": lambda model: surgeon.convert(model, check="none"),
    "extract": lambda model: surgeon.extract(model, "a", check="none"),
    "insert": lambda model: surgeon.insert(model, "a", "b", "Exp", check="none"),
    "split": lambda model: surgeon.split(model, at=["a"], check="none"),
    "merge": lambda model: surgeon.merge(model, model, connect={"y": "x"}, check="none"),
    "run": lambda model: surgeon.run(surgeon.Recipe([surgeon.Rules("gelu")]), model, check="none"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_last_line_of_a_cell_shows_the_report(name):
    """It is still a tuple of two; the text beside the page has no model in full."""
    result = CALLS[name](parse(TEXT))
    made, report = result
    assert isinstance(result, tuple)
    assert result == (made, report)
    shown, _ = DisplayFormatter().format(result)
    assert shown["text/html"] == report._repr_html_()
    assert repr(report) in shown["text/plain"].replace("\n", "")
    assert "op_type" not in shown["text/plain"]


def test_a_path_stays_a_path(tmp_path):
    onnx.save(parse(TEXT), tmp_path / "m.onnx")
    result = surgeon.rewrite(tmp_path / "m.onnx", "gelu", output=tmp_path / "o.onnx", check="none")
    assert repr(result).startswith(f"({tmp_path / 'o.onnx'!r}, <Report ")


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("surgeon.rewrite('none.onnx', 'gelu', output='o.onnx')", "ModelFileError: "),
        ("surgeon.rewrite(model, 'GELU')", "RuleError: No rule named 'GELU'. Did you mean 'gelu'?"),
        ("surgeon.edit(model, surgeon.edits.Rename('z', 'q'))", "UsageError: The model has no tensor 'z'"),
        ("surgeon.extract(model, 'a', 'x')", "UsageError: 'x' would be both an input and an output"),
        ("surgeon.compare(model, model, dims={'m': 2})", "UsageError: No input has a dynamic dimension 'm'"),
    ],
)
def test_a_refusal_in_a_cell_is_one_sentence(cell, sentence, capsys):
    """No frames of surgeon's own; anything else that is raised keeps its frames."""
    shell = InteractiveShell()
    shell.colors = "NoColor"
    shell.push({"surgeon": surgeon, "model": parse(TEXT)})
    shell.run_cell(cell)
    (line,) = filter(str.strip, capsys.readouterr().out.splitlines())
    assert line.startswith(sentence)
    shell.run_cell("1 / 0")
    assert len(capsys.readouterr().out.splitlines()) > 3
