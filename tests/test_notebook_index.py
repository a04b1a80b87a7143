"""The index of the notebooks: every one is in it, every link leads somewhere, and every name of today exists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")
LINKS = sorted(set(re.findall(r"\]\(([^)#]+)\)", TEXT)))
ROWS = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in TEXT.splitlines() if line[:1] == "|"]
# The second column of the table of names; a message is told as it is, and names nothing that one can call.
TODAY = sorted({name for row in ROWS for name in re.findall(r"`((?:surgeon|torch)\.[\w.]+)`", row[1])})
NAMES = (
    *("OnnxRegistry", "dynamo_export", "ExportOptions", "torch._custom_op", "impl_abstract", "allow_in_graph"),
    *("_internal.registration", "adapt_torch_", "nvidia-pyindex", "Unsupported FX nodes"),
    *("'Gelu' is not a known op in 'com.microsoft'", "only implements opset version 18"),
    "is not a registered function/op",
)


def resolve(name):
    """The object of a dotted name; modules on the way are imported."""
    first, *rest = name.split(".")
    found, path = import_module(first), first
    for part in rest:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = import_module(path)
    return found


@pytest.mark.parametrize("link", LINKS)
def test_links_lead_somewhere(link):
    assert (FOLDER / link).is_file()


def test_every_notebook_is_in_the_index():
    assert {path.name for path in FOLDER.glob("*.ipynb")} <= set(LINKS)


@pytest.mark.parametrize("name", TODAY)
def test_names_of_today_exist(name):
    assert resolve(name) is not None


@pytest.mark.parametrize("name", NAMES)
def test_names_and_messages_of_the_tutorials_are_reported(name):
    """In the first column, with what they are today, and a notebook that exists."""
    rows = [row for row in ROWS if name in row[0]]
    assert rows
    for _, today, shown in rows:
        assert today
        assert re.search(r"\]\(\w+\.ipynb\)", shown)


def test_the_table_speaks_of_enough_names():
    """The pattern that finds them has not gone blind."""
    assert {"surgeon.torch.export", "torch.library.custom_op", "torch.onnx.register_custom_op_symbolic"} <= set(TODAY)
