"""Suggestions for a mistyped command line: an unknown command or value, a missing argument, or too many of them."""

import os
import re
from collections.abc import Mapping, Sequence

import click

from surgeon.printed_commands import command
from surgeon.text import close_matches, join_all

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
_VALUES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "half": "float16", "trt": "tensorrt"}
_EXTRA = re.compile(r"unexpected extra arguments? \((.*)\)", re.DOTALL)
QUOTE = "If the shell expanded a pattern to several files, quote it, as in '*.onnx'."


def unknown_command(name: str, known: Sequence[str]) -> str:
    """The error message for an unknown command, with suggestions."""
    if os.path.isfile(name):
        return f"{name!r} is a file, not a command. Example: {command('inspect', name)}"
    meant = [known_name for known_name, words in _SYNONYMS.items() if name.lower() in words.split()]
    names = [f"surgeon {known_name}" for known_name in meant or close_matches(name, known)]
    how = f"Did you mean {join_all(names, 'or')}?" if names else "surgeon --help lists all commands."
    return f"No command named {name!r}. {how}"


def with_hint(error: click.ClickException, typed: Sequence[str]) -> click.ClickException:
    """An error with a hint, if there is one.  typed: the command line."""
    ctx = getattr(error, "ctx", None)
    whole = error.message if isinstance(error, click.NoSuchOption) else error.format_message()
    message = whole.partition(" Choose from")[0].rstrip(".")
    hint = None if ctx is None else _hint(error, message, ctx, typed)
    return error if hint is None else click.UsageError(f"{message}. {hint}", ctx)


def _hint(error: click.ClickException, message: str, ctx: click.Context, typed: Sequence[str]) -> str | None:
    """The hint for a message of click."""
    options = {flag: item for item in ctx.command.get_params(ctx) for flag in item.opts}
    quoted = re.findall("'(.*?)'", error.message)
    if isinstance(error, click.MissingParameter):
        example = re.search("Example: .*", ctx.command.help or "")
        return None if example is None else example[0]
    if "No such command" in message:  # of `new`
        return f"Did you mean {command('new', 'rule', quoted[0])}?"
    if isinstance(error, click.NoSuchOption) and error.option_name == "--target" and "--ep" in options:
        return "Choose the runtime with --ep, for example --ep tensorrt."
    if isinstance(error, click.BadParameter) and isinstance(getattr(error.param, "type", None), click.Choice):
        meant = _VALUES.get(quoted[0].lower())
        near = [meant] if meant in quoted[1:] else close_matches(quoted[0], quoted[1:])
        return f"Did you mean {join_all([*map(repr, near)], 'or')}?" if near else None
    extra = _EXTRA.search(message)
    return None if extra is None else _extra_argument_hint(extra[1].split(), options, typed)


def _extra_argument_hint(
    words: Sequence[str], options: Mapping[str, click.Parameter], typed: Sequence[str]
) -> str | None:
    """A hint for too many arguments."""
    for flag, first, second in zip(typed, typed[1:], typed[2:], strict=False):
        item = options.get(flag)
        if "=" in str(item and (item.metavar or item.type.name)) and "=" not in first and not second.startswith("-"):
            return f"Write {flag} {first}={second}."
    if any(os.path.exists(word) for word in words):
        return QUOTE
    if "--rules" in options:
        from surgeon.rules.catalogue import is_known  # imported here: it searches installed packages

        rules = [word for word in words if is_known(word)]
        return f"Name rules with --rules, as in --rules {','.join(rules)}." if rules else None
    return None
