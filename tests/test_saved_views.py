"""A view in a saved notebook: without a kernel, its picture is shown."""

import base64
import re
from pathlib import Path

import onnx
import pytest

from tests.command_line import ROOT

HEADER = '<ir_version: 8, opset_import: ["" : 18]> g'
CHAIN = " ".join(f"a{place} = {op}(a{place - 1})" for place, op in enumerate(["Relu", "Neg", "Abs", "Exp"] * 40, 1))
WIDE = " ".join(f"y{place} = Relu(x{place})" for place in range(120))
MODELS = {  # beside what has to stand in the picture; "" where there are too many boxes for one
    "one node": (f"{HEADER} (float[4] x) => (float[4] y) {{ y = Relu(x) }}", "Relu"),
    "a body": (
        f"{HEADER} (float[4] x, bool c) => (float[4] y) {{ y = If(c) <then_branch = yes () => (float[4] p) "
        "{ p = Neg(x) }, else_branch = no () => (float[4] q) { q = Identity(x) }> }",
        "If",
    ),
    "an odd name": (f"{HEADER} (float[4] x) => (float[4] \"<b>&y\") {{ \"<b>&y\" = Relu(x) }}", "&lt;b&gt;&amp;y"),
    "repeated blocks": (f"{HEADER} (float[4] a0) => (float[4] a160) {{ {CHAIN} }}", "160 nodes"),
    "no nodes": (f"{HEADER} (float[4] x) => (float[4] x) {{}}", "x"),
    "too many boxes": (
        f"{HEADER} ({', '.join(f'float[4] x{place}' for place in range(120))}) => "
        f"({', '.join(f'float[4] y{place}' for place in range(120))}) {{ {WIDE} }}",
        "",
    ),
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """What nbconvert makes of a notebook with a view of each model, a cell each."""
    nbclient = pytest.importorskip("nbclient", reason="nothing runs notebooks: pip install notebook")
    nbformat, nbconvert = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert")
    # Its templates, which are in another prefix where one environment is made over another.
    share = Path(nbconvert.__file__).parents[4] / "share" / "jupyter"
    folder = tmp_path_factory.mktemp("models")
    cells = [nbformat.v4.new_code_cell("import surgeon")]
    for place, (text, _) in enumerate(MODELS.values()):
        onnx.save(onnx.parser.parse_model(text), folder / f"{place}.onnx")
        cells.append(nbformat.v4.new_code_cell(f"surgeon.view({str(folder / f'{place}.onnx')!r})"))
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    assert "widgets" in notebook.metadata  # with these nbconvert takes a widget before all else
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JUPYTER_PATH", str(share))
        html, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    return html.split("surgeon-still-")[1:]


@pytest.mark.parametrize("title", MODELS)
def test_a_view_keeps_its_picture(rendered, title):
    found = rendered[list(MODELS).index(title)]
    word = MODELS[title][1]
    pictures = [base64.b64decode(text).decode() for text in re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", found)]
    if word:
        assert word in pictures[0]
    else:
        assert pictures == []
        assert "boxes are too many to draw" in found
    assert re.search(r">inputs<.*>outputs<", found, re.DOTALL)
