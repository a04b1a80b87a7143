"""The list of all rules on a terminal, and the manual of a detector's post-processing."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from surgeon.display.content.rule_manual import summary, targets_text
from surgeon.display.registry import CommandResult, builder_of
from surgeon.display.terminal.console import make_console
from surgeon.printed_commands import command
from surgeon.rules.edit_aliases import EDIT_ALIASES
from surgeon.rules.rule import Rule


def rule_list(found: Iterable[tuple[str, str, Rule]], groups: Mapping[str, Sequence[str]]) -> CommandResult:
    """All rules, tails of detectors and groups, as JSON can hold them."""
    rules = [{**builder_of(rule).data(rule), "pack": pack, "module": module} for pack, module, rule in found]
    tails = {name: tail.summary for name, tail in EDIT_ALIASES.items()}
    return CommandResult("rules", {"rules": rules, "tails": tails, "groups": dict(groups)})


def print_list(found: Iterable[tuple[str, str, Rule]], groups: Mapping[str, Sequence[str]], stream: TextIO) -> None:
    """Print all rules by pack and file: name, summary, and targets with their lowest opset; then the groups."""
    from rich.table import Table
    from rich.text import Text

    console = make_console(stream)
    files: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for pack, module, rule in found:
        files.setdefault((module.rpartition(".")[2], f"  {pack}: {module}"), []).append(
            (rule.name, summary(rule), targets_text(rule))
        )
    width = max((len(row[0]) for rows in files.values() for row in rows), default=0)
    sections = dict(files)
    if files:
        sections["tails of detectors", ""] = [(name, tail.summary) for name, tail in EDIT_ALIASES.items()]
        sections["groups", ""] = [(name, ", ".join(members)) for name, members in groups.items()]
    for place, ((title, where), rows) in enumerate(sections.items()):
        if place:
            console.print()
        console.print(Text.assemble((title, "bold"), where), soft_wrap=True)
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(min_width=width + 2, overflow="fold")
        for ratio in (2, 1) if where else (None,):
            table.add_column(ratio=ratio, overflow="fold")
        for name, *words in rows:
            table.add_row(f"  {name}", *words)
        console.print(table)
    if not files:
        console.print("No rule pack is installed.")


def print_postprocessing(name: str, stream: TextIO) -> None:
    """Print the manual of a detector's post-processing."""
    from surgeon.edits.detection.postprocessing_edits import POSTPROCESSING as EDITS

    tail = EDIT_ALIASES[name]
    console = make_console(stream)
    console.print(name, style="bold")
    console.print(f"  {tail.summary}", soft_wrap=True)
    about = (
        "This is an edit, because it changes the outputs. surgeon finds the head by its structure, appends the "
        "post-processing, compares it with numpy, and runs the rules on the result.",
        f"With settings, for example thresholds: {command('append', 'IN', 'OUT', tail.kind)}",
        *([f"Only for --target {tail.target}."] if tail.target else []),
    )
    manual = (inspect.getdoc(EDITS[tail.kind]) or "").partition("\n\nExamples:")[0]
    for text in (*about, *manual.splitlines()):
        console.print(f"  {text}" if text else "", soft_wrap=True)
