"""Runs the commands that messages print, each on the model that made surgeon print it."""

import ast
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import click
import onnx
from click.testing import Result

from surgeon import printed_commands
from surgeon.cli.app import main
from tests.command_line import ROOT, run

MAKERS = {"command", "in_floats", "upgrade_to", "with_traceback"}
"""The functions of `surgeon.printed_commands` that make a command."""


class Case(NamedTuple):
    """A model that makes surgeon print a command.

    site: where the command is made, as `sites` has it.  model: in ONNX text.  typed: the command whose output holds the
    message, without `surgeon`.  printed: the command in the message; "@" stands for the folder.  fill: a value for each
    word in capitals.  says: what the printed command has to print; "" where it has to take the message away: of OUT the
    first command then prints it no longer, and ends well, or prints `then`.  more: options that the message asks for
    beside the command.  files: what else the folder holds.  written: what the user changes in files before the printed
    command, from and to.  original: the model for ORIGINAL.
    """

    site: str
    model: str
    typed: str
    printed: str
    fill: Mapping[str, str] = {}
    says: str = ""
    then: str = ""
    more: str = ""
    files: Mapping[str, str] = {}
    written: Mapping[str, tuple[str, str]] = {}
    original: str = ""


def sites() -> Iterator[str]:
    """Where surgeon makes a command: `module.function`, or `module.NAME` for a constant."""
    for path in sorted((ROOT / "surgeon").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        if "surgeon.printed_commands" not in text:  # parsing all of surgeon takes seconds
            continue
        tree = ast.parse(text)
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        taken = [node for node in imports if node.module == "surgeon.printed_commands"]
        makers = {item.asname or item.name for node in taken for item in node.names if item.name in MAKERS}
        yield from (f"{module}.{name}" for name in dict.fromkeys(_places(tree, "", makers)))


def _places(tree: ast.AST, name: str, makers: set[str]) -> Iterator[str]:
    """The names of the functions and constants below a node that call one of these functions.  name: its own."""
    for node in ast.iter_child_nodes(tree):
        inner = name
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = node.name
        elif isinstance(node, ast.Assign) and not name:
            inner = ast.unparse(node.targets[0])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers:
            yield name
        yield from _places(node, inner, makers)


def spelled_commands() -> Iterator[str]:
    """The places in surgeon where a sentence names a command that `surgeon.printed_commands` did not make.

    The manuals of the command line (docstrings and helps of options) and files to start from may name commands.
    """
    named = re.compile(rf"\bsurgeon (?:{'|'.join(main.list_commands(click.Context(main)))})\b(?! (?:does|did)\b)")
    for path in sorted((ROOT / "surgeon").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        is_manual = path.name == "commands.py"
        if is_manual or not named.search(text):  # parsing all of surgeon takes seconds
            continue
        tree = ast.parse(text)
        manuals = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        manuals |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "help"}
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and id(node) not in manuals and named.search(node.value):
                yield f"{path.name}:{node.lineno}: {node.value}"


@contextmanager
def recorded() -> Iterator[dict[str, set[str]]]:
    """The commands that are made meanwhile, by the site that makes each."""
    found: dict[str, set[str]] = {}

    def join(words: list[str]) -> str:
        text = shlex.join(words)
        frame = sys._getframe(1)
        while frame.f_globals["__name__"] == printed_commands.__name__ and frame.f_back is not None:
            frame = frame.f_back
        site = f"{frame.f_globals['__name__']}.{frame.f_code.co_name}"
        found.setdefault(site, set()).add(text)
        return text

    with patch.object(printed_commands, "join", join):
        yield found


def check(case: Case, folder: Path) -> None:
    """Type a case's command, then the one that it prints, and see whether that does what the message says.

    folder: the working directory.
    """
    for name, text in case.files.items():
        (folder / name).write_text(text)
    for name, text in (("in.onnx", case.model), ("original.onnx", case.original)):
        if text:
            onnx.save(onnx.parser.parse_model(text), folder / name)
    places = {"IN": "@/in.onnx", "OUT": "@/out.onnx", "ORIGINAL": "@/original.onnx", **case.fill}
    places = {name: text.replace("@", str(folder)) for name, text in places.items()}  # a child has another folder
    printed = case.printed.replace("@", str(folder))
    with recorded() as made:
        said = _typed(case.typed, {**places, "OUT": str(folder / "first.onnx")})
    assert printed in said.output, said.output
    module, _, name = case.site.rpartition(".")
    found = {getattr(import_module(module), name)} if name.isupper() else made[case.site]
    assert any(printed in text for text in found)
    for file, (old, new) in case.written.items():
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))
    did = _typed(f"{printed} {case.more}".removeprefix("surgeon "), places)
    if case.says:
        assert case.says in did.output, did.output
        return
    assert did.exit_code == 0, did.output
    again = _typed(case.typed, {**places, "IN": places["OUT"], "OUT": str(folder / "second.onnx")})
    assert again.exit_code == 0 or case.then in again.output, again.output
    assert printed not in again.output, again.output


def _typed(words: str, places: Mapping[str, str]) -> Result:
    """Run a command, its words in capitals replaced."""
    filled = shlex.split(words)
    for name, value in places.items():
        word = re.compile(rf"(?<![A-Za-z.]){re.escape(name)}(?![A-Za-z])")
        filled = [word.sub(value, each) for each in filled]
    return run(*filled)
