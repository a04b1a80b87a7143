"""Every notebook runs from top to bottom, and shows what comes out."""

import base64
import importlib.util
import os
import re

import pytest

from tests import sampling
from tests.run_notebooks import FOLDER, draft, execute, read_draft, stable, stored
from tests.shown import differences

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SAMPLE = [path for path in NOTEBOOKS if path.stem in ("first_rewrite", "network_by_helpers", "a_zoo_of_models")]
"""What runs by default: those that need no torch.  What the others show is tested step by step in tests/from_torch."""
NEEDED = {"generate_text": ("torch", "transformers.exporters", "onnxruntime_genai")}
"""Modules of notebooks that not all machines can install."""


@pytest.mark.parametrize(
    "path", sampling.chosen(lambda: SAMPLE, lambda: NOTEBOOKS), ids=lambda path: path.stem
)
def test_notebook_runs(path, tmp_path):
    """No cell raises, and what the repository shows is what comes out, but for rounding."""
    for name in NEEDED.get(path.stem, ()):
        pytest.importorskip(name, reason=f"{name} is not installed")
    shown = stored(path)
    run = execute(shown, tmp_path)
    for before, after in zip(shown.cells, run.cells, strict=True):
        if before.cell_type == "code":
            assert not differences(_texts(before), _texts(after)), before.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_as_it_is_written_again(path):
    """No counts, no metadata, no folder of one machine, nothing on stderr: python -m tests.run_notebooks NAME.ipynb."""
    import nbformat

    shown = stored(path)
    assert stable(nbformat.from_dict(shown)) == shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_pictures_are_not_empty(path):
    """Each has a size, and something of one on it."""
    for cell in stored(path).cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            html = "".join(data.get("text/html", ""))
            inside = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", html)
            found = [base64.b64decode(text).decode() for text in inside]
            for svg in filter(None, [*found, "".join(data.get("image/svg+xml", ""))]):
                assert float(re.search(r'height="([\d.]+)"', svg)[1]) > 40
                assert svg.count("<text") > 1


def test_a_draft_becomes_the_notebook_that_it_was():
    text = "# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\nx = 1\n\nx  # %% no mark\n"
    notebook = read_draft(text)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code"]
    assert notebook.cells[0].source == "# Title\n\nWords."
    assert draft(notebook) == text


def test_a_cell_that_writes_to_stderr_is_refused():
    from nbformat.v4 import new_output

    notebook = read_draft("# %%\nx = 1\n")
    notebook.cells[0].outputs = [new_output("stream", name="stdout", text="a\n"), new_output("stream", text="b\n")]
    assert stable(notebook).cells[0].outputs == [new_output("stream", name="stdout", text="a\nb\n")]
    notebook.cells[0].outputs.append(new_output("stream", name="stderr", text="a warning"))
    with pytest.raises(ValueError, match="cell 0 writes to stderr"):
        stable(notebook)


def test_what_is_on_the_screen(capfd):
    """The line that is asked for, without what is printed on the way; a call that works is no story."""
    spec = importlib.util.spec_from_file_location("screen", FOLDER / "screen.py")
    screen = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(screen)

    def fail(text):
        print("on the way")
        os.write(2, b"from below\n")
        raise RuntimeError(f"first\n{text}")

    screen.message(fail, "second: why", about="second")
    screen.message(fail, f"{'somewhere/' * 20} failed: why", about="failed")
    assert capfd.readouterr() == ("second: why\n… failed: why\n", "")
    with pytest.raises(ValueError, match="does not speak of 'third'"):
        screen.message(fail, "second", about="third")
    with pytest.raises(ValueError, match="does not fail any more"):
        screen.message(str)


def _texts(cell):
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    # How many rules of a group did nothing, and on which line of the pack a helper is called, change with the pack and
    # say nothing of the notebook.
    return re.sub(r"\d+ other rules 0|(?<=\.py:)\d+", "", "".join(text for text in texts if text))
