"""What the source says of fields, read without importing anything."""

import importlib
import subprocess
import sys
import types
from dataclasses import dataclass, fields
from inspect import getdoc

import pytest

from surgeon.declarations import FieldManual, field_docs
from surgeon.edits.installed_edits import OWN

PACK = '''
from dataclasses import dataclass
import surgeon
from surgeon.pipeline.editing.edit import Edit

@dataclass(frozen=True)
class Base(Edit):
    """A base."""

    first: str
    """The first,
    on two lines.
    """
    bare: int = 0

@dataclass(frozen=True, slots=True)
class Mine(Base):
    """Do it.

    Raises:
        UsageError: never.
    """

    second: int = 1
    """The second."""
    flag = "mine"
    metavar = "FIRST=SECOND"

    def apply(self, draft):
        """Apply it."""
        return ()
'''
MANUAL = """Do it.

Attributes:
    first: The first, on two lines.
    bare:
    second: The second.

Raises:
    UsageError: never."""


@pytest.fixture
def pack(tmp_path, monkeypatch):
    (tmp_path / "pack_of_mine.py").write_text(PACK, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("pack_of_mine")
    del sys.modules["pack_of_mine"]


def test_fields_of_a_pack_have_their_words(pack):
    """Those of its bases come first, as dataclasses have them."""
    assert field_docs(pack.Mine) == {"first": "The first,\non two lines.", "second": "The second."}
    assert getdoc(pack.Mine) == MANUAL


def test_a_class_without_a_source_has_names_only(monkeypatch):
    """As one that is typed into a shell."""
    monkeypatch.setitem(sys.modules, "typed_in", types.ModuleType("typed_in"))
    made = dataclass(type("Made", (), {"__annotations__": {"name": str}, "__module__": "typed_in"}))
    assert field_docs(made) == {}
    made.__doc__ = FieldManual("Say it.")
    assert getdoc(made) == "Say it.\n\nAttributes:\n    name:"


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
def test_every_edit_has_words_for_each_field(kind):
    known = field_docs(kind)
    assert [item.name for item in fields(kind) if not known.get(item.name)] == []
    for name, text in known.items():
        assert f"    {name}: {text[:20]}" in getdoc(kind)


def test_no_source_is_read_to_import_edits():
    """The source is parsed when a manual is read, not when a class is made."""
    code = "import surgeon.edits, surgeon.declarations as d; print(d._statement.cache_info().misses)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "0\n"
