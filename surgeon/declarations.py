"""Declarations as in the source: fields of classes and parameters of functions, with types, defaults and descriptions.

The source is parsed and not imported, so that the options of a command are known before anything heavy is loaded.
"""

import ast
import dataclasses
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, PathFinder
from inspect import cleandoc
from itertools import pairwise
from typing import Any, NamedTuple

REQUIRED = ...
"""The default of a parameter that has to be given."""
_WIDTH = 116  # of a manual, as of a docstring with its indentation
_NEXT_SECTION = re.compile(r"\n+(?=(?:Raises|Examples):\n)|\Z")
_IN_PYTHON = re.compile(r"\s*\bIn Python,\s.*?\.(?=\s|$)", re.DOTALL)
_IMPORT = re.compile(r"^ *from ([\w.]+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


class Declared(NamedTuple):
    """A field of a class, or a parameter of a function."""

    name: str
    """Its name."""
    annotation: ast.expr | None
    """Its type as in the source, for `unaliased`."""
    default: Any
    """Its default, or REQUIRED."""
    words: str
    """Its docstring, or its entry under `Args:`."""
    module: str
    """The module that declares it."""


def field_docs(kind: type) -> dict[str, str]:
    """The docstring below each field of a class and of its bases, by name; empty if the source cannot be read."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        first, *inner = base.__qualname__.split(".")
        statement = _statement(base.__module__, first)
        for name in inner:
            classes = statement.body if isinstance(statement, ast.ClassDef) else []
            statement = next((item for item in classes if isinstance(item, ast.ClassDef) and item.name == name), None)
        found |= {name: words for name, _, words in _fields(statement) if words}
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
def declared(module: str, name: str) -> tuple[Declared, ...]:
    """The fields of a class, inherited ones first, or the parameters of a function."""
    home, statement = _find(module, name)
    if isinstance(statement, ast.ClassDef):
        bases = [base.id for base in statement.bases if isinstance(base, ast.Name)]
        found = {item.name: item for base in bases for item in declared(home, base)}
        for name, field, words in _fields(statement):
            default = REQUIRED if field.value is None else _value(home, field.value)
            found[name] = Declared(name, field.annotation, default, words=words, module=home)
        return tuple(found.values())
    if not isinstance(statement, ast.FunctionDef):
        return ()
    given, docs = statement.args, argument_docs(ast.get_docstring(statement) or "")
    required = [None] * (len(given.args) - len(given.defaults))
    pairs: list[tuple[ast.arg, ast.expr | None]] = list(zip(given.args, [*required, *given.defaults], strict=True))
    pairs += [(given.vararg, ast.Tuple([]))] if given.vararg is not None else []
    pairs += zip(given.kwonlyargs, given.kw_defaults, strict=True)
    found = {}
    for item, value in pairs:
        default = REQUIRED if value is None else _value(home, value)
        found[item.arg] = Declared(item.arg, item.annotation, default, words=docs.get(item.arg, ""), module=home)
    return tuple(found.values())


def argument_docs(docstring: str) -> dict[str, str]:
    """The entries under `Args:` of a docstring, by name."""
    section = re.search(r"^Args:\n((?: +.*\n|\n)+)", docstring + "\n", re.MULTILINE)
    entries = re.finditer(r"^    (\w+): (.*(?:\n {5,}.*)*)", section[1], re.MULTILINE) if section is not None else ()
    return {entry[1]: " ".join(entry[2].split()) for entry in entries}


def without_python(words: str) -> str:
    """The description of a parameter as one plain line, without sentences for Python."""
    return " ".join(re.sub('[`"]', "", _IN_PYTHON.sub("", words)).split())


def unaliased(annotation: ast.expr | None, module: str) -> Iterator[ast.expr]:
    """The members of a type, those of a union one by one; names of types are followed to their definitions."""
    match annotation:
        case ast.BinOp(left, ast.BitOr(), right):
            yield from unaliased(left, module)
            yield from unaliased(right, module)
        case ast.Constant(str(text)):
            yield from unaliased(ast.parse(text, mode="eval").body, module)
        case ast.Name(name):
            home, statement = _find(module, name)
            value = getattr(statement, "value", None)
            yield from [annotation] if value is None else unaliased(value, home)
        case ast.expr():
            yield annotation


def _value(module: str, node: ast.expr) -> Any:
    """The value of a default; names are followed to their constants."""
    match node:
        case ast.Name(name):
            home, statement = _find(module, name)
            match statement:
                case ast.Assign(targets=[ast.Tuple(names)], value=ast.Tuple(values)):
                    return _value(home, values[[ast.unparse(item) for item in names].index(name)])
                case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                    return _value(home, value)
            raise LookupError(f"{module}: the default {name} is not a constant")
        case ast.Call(ast.Name("field")):
            return ()
        case ast.Subscript(values, ast.Constant(int(place))):
            return _value(module, values)[place]
        case ast.Tuple(items):
            return tuple(_value(module, item) for item in items)
    return ast.literal_eval(node)


def _fields(statement: ast.stmt | None) -> Iterator[tuple[str, ast.AnnAssign, str]]:
    """The fields that a class declares, by name, and the docstrings below them."""
    body = statement.body if isinstance(statement, ast.ClassDef) else []
    for item, below in pairwise([*body, ast.Pass()]):
        match item, below:
            case ast.AnnAssign(target=ast.Name(), annotation=ast.Subscript(ast.Name("ClassVar"))), _:
                continue
            case ast.AnnAssign(target=ast.Name(name)) as field, ast.Expr(ast.Constant(str(text))):
                yield name, field, cleandoc(text)
            case ast.AnnAssign(target=ast.Name(name)) as field, _:
                yield name, field, ""


def _find(module: str, name: str) -> tuple[str, ast.stmt | None]:
    """The statement that defines a name, and its module, through imports; none for an unknown name."""
    statement = _statement(module, name)
    if statement is not None:
        return module, statement
    for found in _IMPORT.finditer(_source(module)):
        for item in (found[2] or found[3]).split(","):
            original, _, alias = item.strip().partition(" as ")
            if (alias or original) == name:
                return _find(found[1], original)
    return module, None


@cache
def _statement(module: str, name: str) -> ast.stmt | None:
    """The statement that defines a name in a module, without its decorators; the rest of the module is not parsed."""
    text = _source(module)
    start = re.search(rf"^(?:(?:class |def )?{name}(?=[(:]| =)|(?:\w+, )*{name}(?:, \w+)* = )", text, re.MULTILINE)
    if start is None:
        return None
    end = re.compile(r"\n(?=[^\s)\]}#])").search(text, start.end())
    try:
        return ast.parse(text[start.start() : end.start() if end else None]).body[0]
    except SyntaxError:  # a string inside it has a line without indentation
        made = [item for item in ast.parse(text).body if getattr(item, "name", "") == name]
        return made[0] if made else None


@cache
def _source(module: str) -> str:
    """The source of a module; empty if it has none."""
    spec = _spec(module)
    loader = None if spec is None else spec.loader
    try:
        return (loader.get_source(module) if isinstance(loader, InspectLoader) else None) or ""
    except (ImportError, OSError):
        return ""


def _spec(module: str) -> ModuleSpec | None:
    """The location of a module, found without importing its packages."""
    if module in sys.modules:
        return sys.modules[module].__spec__
    home = _spec(module.rpartition(".")[0]) if "." in module else None
    return PathFinder.find_spec(module, None if home is None else home.submodule_search_locations)
