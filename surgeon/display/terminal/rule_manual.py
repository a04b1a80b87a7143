"""The list of all rules on a terminal, and the manual of a detector's post-processing."""

import inspect
import textwrap
from collections.abc import Iterable, Sequence

from surgeon.display.content.rule_manual import summary, targets_text
from surgeon.display.registry import CommandResult, builder_of
from surgeon.errors import RuleError
from surgeon.printed_commands import command
from surgeon.rules.catalogue import file_of, groups, purposes, resolve, unique_rules
from surgeon.rules.edit_aliases import EDIT_ALIASES
from surgeon.rules.rule import Rule


def rule_list(found: Iterable[tuple[str, str, Rule]]) -> CommandResult:
    """All rules, tails of detectors and groups, as JSON can hold them."""
    rules = [{**builder_of(rule).data(rule), "pack": pack, "module": module} for pack, module, rule in found]
    tails = {name: tail.summary for name, tail in EDIT_ALIASES.items()}
    return CommandResult("rules", {"rules": rules, "tails": tails, "groups": groups()})


def listing(found: Iterable[tuple[str, str, Rule]], verbose: bool) -> dict[str, list[tuple[str, str]]]:
    """Names and texts by title: the groups, and the families with the names of their files; verbose: every rule."""
    families: dict[str, list[str]] = {}
    files: dict[str, list[tuple[str, str]]] = {}
    for pack, module, rule in found:
        *_, family, file = f"{pack}.{module}".split(".")
        families.setdefault(family, []).append(file)
        row = rule.name, f"{summary(rule)} [{targets_text(rule)}]"
        files.setdefault(f"{file} ({pack}: {module})", []).append(row)
    if verbose or not files:
        return files
    families["detectors"] = list(EDIT_ALIASES)
    texts = {name: f"{len(names)} rules: {', '.join(dict.fromkeys(names))}" for name, names in families.items()}
    two_lines = 90  # characters, next to the names of families
    return {
        "Groups": [(name, f"{len(unique_rules(resolve(name))):>3}  {purpose}") for name, purpose in purposes().items()],
        "Families": [(name, textwrap.shorten(text, two_lines, placeholder=" ...")) for name, text in texts.items()],
    }


def manuals(name: str) -> Sequence[Rule | CommandResult]:
    """The results that are manuals of the rules of a name; none for a group, and for a text that is not a name.

    Raises RuleError for a file.
    """
    if name in EDIT_ALIASES:
        return [postprocessing(name)]
    try:
        return [] if name in groups() else unique_rules(resolve(name))
    except RuleError:
        if file_of(name) is not None:
            raise
        return []


def postprocessing(name: str) -> CommandResult:
    """The manual of a detector's post-processing."""
    from surgeon.edits.detection.postprocessing_edits import POSTPROCESSING as EDITS

    tail = EDIT_ALIASES[name]
    texts = (
        tail.summary,
        "This is an edit, because it changes the outputs. surgeon finds the head by its structure, appends the "
        "post-processing, compares it with numpy, and runs the rules on the result.",
        f"With settings, for example thresholds: {command('append', 'IN', 'OUT', tail.kind)}",
        *([f"Only for --target {tail.target}."] if tail.target else []),
        *(inspect.getdoc(EDITS[tail.kind]) or "").partition("\n\nExamples:")[0].splitlines(),
    )
    return CommandResult("tail", {"name": name, **tail._asdict()}, [name, *(f"  {text}".rstrip() for text in texts)])
