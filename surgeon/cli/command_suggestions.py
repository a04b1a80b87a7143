"""Suggestions for a mistyped command line: an unknown command, or too many arguments."""

import os
import re
from collections.abc import Sequence

import click

from surgeon.printed_commands import command
from surgeon.text import close_matches

_SYNONYMS = {
    "--help": "help man usage",
    "--version": "version",
    "append": "postprocess",
    "bench": "benchmark latency measure profile speed time",
    "check": "lint support validate verify",
    "compare": "prove test verify",
    "convert": "cast fp16 half quantize",
    "draw": "picture plot svg",
    "edit": "batch change free metadata modify rename reshape set",
    "explain": "debug find match search why",
    "extract": "cut sub subgraph subset",
    "inspect": "dump info ls print show stat stats summary",
    "learn": "teach",
    "merge": "concat combine compose connect join",
    "prepend": "preprocess",
    "rewrite": "apply clean fold fuse optimise optimize replace run-rules simplify slim transform",
    "rules": "find groups list patterns search",
    "run": "batch fleet recipe",
    "upgrade": "opset version-converter",
    "view": "gui netron open serve",
}
"""Names of the same commands in other tools."""
_EXTRA = re.compile(r"unexpected extra arguments? \((.*)\)", re.DOTALL)
QUOTE = "If the shell expanded a pattern to several files, quote it, as in '*.onnx'."


def unknown_command(name: str, known: Sequence[str]) -> str:
    """The error message for an unknown command, with suggestions."""
    if os.path.isfile(name):
        return f"{name!r} is a file, not a command. Example: {command('inspect', name)}"
    meant = [known_name for known_name, words in _SYNONYMS.items() if name.lower() in words.split()]
    names = [f"surgeon {known_name}" for known_name in meant or close_matches(name, known)]
    how = f"Did you mean {' or '.join(names)}?" if names else "surgeon --help lists all commands."
    return f"No command named {name!r}. {how}"


def extra_argument_hint(message: str, ctx: click.Context | None) -> str | None:
    """A hint for click's message about too many arguments; None for another message, or without a hint."""
    found = _EXTRA.search(message)
    words = found[1].split() if found else []
    if any(os.path.exists(word) for word in words):
        return QUOTE
    options = [option for item in ctx.command.params for option in item.opts] if ctx is not None else []
    if words and "--rules" in options:
        from surgeon.rules.catalogue import is_known  # imported here: it searches installed packages

        rules = [word for word in words if is_known(word)]
        return f"Name rules with --rules, as in --rules {','.join(rules)}." if rules else None
    return None
