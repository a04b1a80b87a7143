"""What a user may have meant by a word of the command line that names nothing: a command, or an argument too many."""

import os
import re
from collections.abc import Sequence

import click

from surgeon.printed_commands import command
from surgeon.text import close_matches

_WORDS = {
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
    "rules": "groups list patterns",
    "run": "batch fleet recipe",
    "upgrade": "opset version-converter",
    "view": "gui netron open serve",
}
"""Words that other tools have for what a command does."""
_EXTRA = re.compile(r"unexpected extra arguments? \((.*)\)", re.DOTALL)
QUOTE = "If the shell expanded a pattern to several files, quote it, as in '*.onnx'."


def unknown_command(name: str, known: Sequence[str]) -> str:
    """A sentence on a command that there is not, with the commands that may be meant."""
    if os.path.isfile(name):
        return f"{name!r} is a file; name a command first, as in: {command('inspect', name)}"
    meant = [one for one, words in _WORDS.items() if name.lower() in words.split()]
    meant = meant or close_matches(name, known)
    how = f"did you mean {' or '.join(f'surgeon {one}' for one in meant)}?" if meant else "surgeon --help lists them."
    return f"There is no command {name!r}; {how}"


def extra_arguments(message: str, ctx: click.Context | None) -> str:
    """What to do about arguments too many, behind click's message on them; "" behind any other."""
    found = _EXTRA.search(message)
    words = found[1].split() if found else []
    if any(os.path.exists(word) for word in words):
        return QUOTE
    options = [option for item in ctx.command.params for option in item.opts] if ctx is not None else []
    if words and "--rules" in options:
        from surgeon.rules.catalogue import is_known  # not at the top: it looks for what is installed

        rules = [word for word in words if is_known(word)]
        return f"Name rules with --rules, as in --rules {','.join(rules)}." if rules else ""
    return ""
