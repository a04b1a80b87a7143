"""The result of the gate as Markdown, for a comment or the summary of a job."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from surgeon.automation.gate.gate_result import GateResult
from surgeon.automation.gate.model_comparison import Difference
from surgeon.display.gate_files.shown_names import short_names, without_folders
from surgeon.text import format_count

FIRST = "<!-- surgeon-gate -->"
LIMIT = 65_536  # characters that a comment on GitHub may have
RESERVED = 1000  # of them for headings, and for the lines that count rows that are left out
_SPECIAL = re.compile(r"[\\`*_\[\]|~&<>]|(?<=:)/")  # characters with a meaning in Markdown or HTML


def markdown_text(found: GateResult) -> str:
    """At most LIMIT characters: a table of regressions, then the other changes and the facts about models, folded."""
    names = short_names([*found.models, *(one.model for one in found.differences)])
    others = [_change(one, names) for one in found.differences if not one.is_regression]
    sections = [
        ("", ("", "rule", "model", "what", "cause"), _regressions(found, names)),
        (format_count(len(others), "other change"), ("model", "what", "cause"), others),
        ("Facts about each model", ("model", "result", "nodes", "fused ops"), list(_facts(found, names))),
    ]
    text, left = f"{FIRST}\n### Models: {_headline(found)}\n", LIMIT - RESERVED
    for title, heads, rows in sections:
        table = _table(heads, rows, left)
        left -= len(table)
        text += f"\n<details><summary>{title}</summary>\n{table}\n</details>\n" if title and table else table
    return text


def _headline(found: GateResult) -> str:
    models = f"{format_count(len(found.models), 'model')}, target {_escaped(str(found.settings['target']))}"
    if found.has_baseline:
        return f"{format_count(len(found.regressions), 'regression')} in {models}"
    return f"no baseline to compare {models} with"


def _regressions(found: GateResult, names: Mapping[str, str]) -> list[Sequence[str]]:
    signs = {one.rule: "❌" if one.rule is not None and found.stops(one.rule) else "⚠️" for one in found.regressions}
    rules = [(one, one.rule) for one in found.regressions if one.rule is not None]
    return [(signs[rule], rule.title, *_change(one, names)) for one, rule in rules]


def _change(one: Difference, names: Mapping[str, str]) -> Sequence[str]:
    return f"<code>{_escaped(names[one.model])}</code>", _escaped(one.what), _escaped(one.cause)


def _facts(found: GateResult, names: Mapping[str, str]) -> Iterator[Sequence[str]]:
    for name, facts in found.models.items():
        title = f"<code>{_escaped(names[name])}</code>"
        yield title, facts.outcome, f"{facts.nodes:,}", _escaped(facts.families_text)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], room: int) -> str:
    """The rows that fit into a number of characters, and a line for the others; nothing without rows."""
    lines = [f"| {' | '.join(row)} |\n" for row in rows]
    head = f"\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}\n"
    ends = accumulate(map(len, lines), initial=len(head))
    kept = lines[: max(sum(end <= room for end in ends) - 1, 0)]
    more = len(lines) - len(kept)
    rest = f"\n{format_count(more, 'row')} more: SARIF, JUnit and --report have all.\n" if more else ""
    return f"{head}{''.join(kept)}{rest}" if kept else rest


def _escaped(text: str) -> str:
    """A text of a model as plain text in a cell: no markup, no folder, no mention of a person."""
    plain = " ".join(without_folders(text).split())
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", plain).replace("@", "@\u200b")
