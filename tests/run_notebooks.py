"""Run notebooks and store what they put out: `python -m tests.run_notebooks [notebooks/NAME.ipynb | DRAFT.py] ...`.

A notebook is run from top to bottom in a copy of notebooks/, and written back with its outputs; without arguments all
are.  A draft is a Python file whose cells begin with `# %%`, or `# %% [markdown]` for text in comments; it becomes
notebooks/<stem>.ipynb.  `--draft NAME.ipynb` prints a notebook as such a draft.

What is stored is the same from run to run: cells are numbered, counts and metadata left out, and a cell that writes to
stderr is refused, for warnings tell of one machine only.  nbformat, which loads for three seconds, is imported where it
is used, since each process that runs tests imports this module.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
MARK = re.compile(r"^# %%(?: (\[markdown\]))?[^\n]*\n?", re.MULTILINE)
WIDGET = "application/vnd.jupyter.widget-view+json"
TIMEOUT = 600  # seconds for one cell, so that one that hangs ends
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
}


def stored(path: Path) -> NotebookNode:
    """The notebook of a file."""
    import nbformat

    return nbformat.read(path, as_version=4)


def execute(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Run all cells in a copy of notebooks/ under `folder`, which keeps the files that they write; return a copy."""
    import nbformat
    from nbclient import NotebookClient

    work = folder / "notebooks"
    shutil.copytree(FOLDER, work, ignore=shutil.ignore_patterns("*.ipynb", "__pycache__"))
    resources = {"metadata": {"path": str(work)}}
    return NotebookClient(nbformat.from_dict(notebook), resources=resources, timeout=TIMEOUT).execute()


WHERE = re.compile(r"<code>/[^<]*/")
"""The folder of a file that is shown, which is another on every machine."""


def stable(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook without what changes from run to run; raises ValueError where a cell writes to stderr."""
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    cells = []
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            cells.append(new_markdown_cell(cell.source, id=f"cell-{place}"))
            continue
        code = new_code_cell(cell.source, id=f"cell-{place}")
        for output in cell.outputs:
            if output.get("name") == "stderr":
                raise ValueError(f"cell {place} writes to stderr, which is not stable:\n{output.text}")
            last = code.outputs[-1] if code.outputs else None
            if output.output_type == "stream" and last is not None and last.output_type == "stream":
                last.text += output.text
                continue
            data = output.get("data", {})
            data.pop(WIDGET, None)  # it lives as long as its kernel; what is beside it is kept
            if "text/html" in data:
                data["text/html"] = WHERE.sub("<code>", data["text/html"])
            if "execution_count" in output:
                output.execution_count = None
            code.outputs.append(output)
        cells.append(code)
    return new_notebook(cells=cells, metadata=METADATA)


def read_draft(text: str) -> NotebookNode:
    """Make a notebook of a draft."""
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    parts = MARK.split(text)  # what is before the first mark, then (kind, text) in turn
    cells = []
    for kind, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = body.strip("\n")
        if kind:
            cells.append(new_markdown_cell(re.sub(r"^# ?", "", lines, flags=re.MULTILINE)))
        else:
            cells.append(new_code_cell(lines))
    return new_notebook(cells=cells, metadata=METADATA)


def draft(notebook: NotebookNode) -> str:
    """Return a notebook as a draft."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text = "\n".join(f"# {line}".rstrip() for line in cell.source.splitlines())
            found.append(f"# %% [markdown]\n{text}\n")
        else:
            found.append(f"# %%\n{cell.source}\n")
    return "\n".join(found)


def store(path: Path) -> Path:
    """Run a notebook or a draft, store the notebook with its outputs, and return its path."""
    import nbformat

    is_draft = path.suffix == ".py"
    notebook = read_draft(path.read_text(encoding="utf-8")) if is_draft else stored(path)
    with tempfile.TemporaryDirectory() as folder:
        ran = stable(execute(notebook, Path(folder)))
    output = FOLDER / f"{path.stem}.ipynb" if is_draft else path
    nbformat.write(ran, output)
    return output


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--draft", action="store_true", help="print notebooks as drafts, and run nothing")
    arguments = parser.parse_args()
    for path in arguments.paths or sorted(FOLDER.glob("*.ipynb")):
        if arguments.draft:
            print(draft(stored(path)))
        else:
            print(store(path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
