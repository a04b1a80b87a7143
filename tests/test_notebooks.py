"""Every notebook runs from top to bottom."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook_runs(path):
    """No cell raises, and the outputs that the repository shows are those that come out."""
    shown = nbformat.read(path, as_version=4)
    run = NotebookClient(
        nbformat.from_dict(shown), resources={"metadata": {"path": str(FOLDER)}}, timeout=180
    ).execute()
    for before, after in zip(shown.cells, run.cells, strict=True):
        if before.cell_type == "code":
            assert _texts(before) == _texts(after), before.source


def _texts(cell):
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "".join(text for text in texts if text)
