"""Declarations as the source has them: the docstrings below the fields of a class."""

import ast
import dataclasses
import re
import sys
import textwrap
from functools import cache
from importlib.abc import InspectLoader
from importlib.util import find_spec
from inspect import cleandoc
from itertools import pairwise

_WIDTH = 116  # of a manual, as of a docstring with its indentation
_NEXT_SECTION = re.compile(r"\n+(?=(?:Raises|Examples):\n)|\Z")


def field_docs(kind: type) -> dict[str, str]:
    """The docstring below each field of a class and of its bases, by name; none where its source cannot be read."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        found |= _docs(base.__module__, base.__qualname__)
    return found


class FieldManual:
    """The docstring of a dataclass with a line for each field, made when it is read.

    `kind.__doc__ = FieldManual(kind.__doc__)`, before the class becomes a dataclass.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, instance: object, kind: type) -> str:
        """The text, with a section of the fields."""
        if "__match_args__" not in vars(kind):
            return self._text  # it becomes a dataclass just now
        text, known = cleandoc(self._text), field_docs(kind)
        fields = [f"{item.name}: {known.get(item.name, '')}" for item in dataclasses.fields(kind)]
        if not fields or "\nAttributes:\n" in text:
            return text
        lines = [
            textwrap.fill(item.strip(), _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8) for item in fields
        ]
        section = "\n".join(["\n\nAttributes:", *lines])
        place = _NEXT_SECTION.search(text)
        assert place is not None
        return f"{text[: place.start()]}{section}\n\n{text[place.end() :]}".rstrip("\n")


@cache
def _docs(module: str, name: str) -> dict[str, str]:
    """The docstring below each field of one class."""
    body = _tree(module).body
    for part in name.split("."):
        body = next((item.body for item in body if isinstance(item, ast.ClassDef) and item.name == part), [])
    found = {}
    for item, below in pairwise(body):
        match item, below:
            case ast.AnnAssign(target=ast.Name(field)), ast.Expr(ast.Constant(str(text))):
                found[field] = cleandoc(text)
    return found


@cache
def _tree(module: str) -> ast.Module:
    """The parsed source of a module, empty where it has none."""
    spec = sys.modules[module].__spec__ if module in sys.modules else find_spec(module)
    loader = None if spec is None else spec.loader
    try:
        text = loader.get_source(module) if isinstance(loader, InspectLoader) else None
    except (ImportError, OSError):
        text = None
    return ast.parse(text or "")
