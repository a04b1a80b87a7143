"""The table of mutants: how many of each kind were killed, and every survivor with why."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.mutation.judging import HOLE, UNTRIED
from tests.mutation.measuring import CRASHED, EQUAL, KILLED, OUTCOMES, REFUSED, SKIPPED, UNPROVED, Result
from tests.mutation.reasons import why

COMMAND = "python -m tests.mutation --show"


def lines(results: Sequence[Result]) -> Iterator[str]:
    """Markdown: by kind of change, by rule where something is not killed, and the survivors."""
    yield "# Mutants of the built-in rules\n"
    yield summary(results)
    yield "\n## By kind of change\n"
    yield from _counts(
        {kind: [one for one in results if one.mutant.kind == kind] for kind in _kinds(results)}, "change"
    )
    yield "\n## By rule\n"
    rules = sorted({one.mutant.spot.rule for one in results})
    yield from _counts({rule: [one for one in results if one.mutant.spot.rule == rule] for rule in rules}, "rule")
    for outcome, title in (
        (HOLE, "Holes: called proved, and wrong"),
        (CRASHED, "Crashes"),
        (UNTRIED, "Called proved, and not looked at again"),
        (EQUAL, "Called proved, and no difference found"),
        (UNPROVED, "Called unproved"),
        (SKIPPED, "Not measured"),
    ):
        found = [one for one in results if one.outcome == outcome]
        if found:
            yield f"\n## {title} ({len(found)})\n"
            yield from (f"- `{one.mutant.title}`: {_said(one)}" for one in sorted(found, key=_order))


def summary(results: Sequence[Result]) -> str:
    """One line: how many of those that are wrong were killed."""
    counts = Counter(one.outcome for one in results)
    dead = counts[KILLED] + counts[REFUSED]
    wrong = dead + counts[HOLE] + counts[CRASHED]
    share = f"{100 * dead / wrong:.1f} %" if wrong else "none"
    message = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in OUTCOMES if counts[outcome])
    return f"{len(results):,} mutants: {message}.  Killed of those that differ, unproved ones aside: {share}."


def _kinds(results: Sequence[Result]) -> list[str]:
    return sorted({one.mutant.kind for one in results})


def _counts(groups: dict[str, list[Result]], name: str) -> Iterator[str]:
    yield f"| {name} | mutants | {' | '.join(OUTCOMES)} |"
    yield f"|---|{'---:|' * (len(OUTCOMES) + 1)}"
    for title, group in groups.items():
        counts: Counter[str] = Counter(one.outcome for one in group)
        yield f"| {title} | {len(group)} | {' | '.join(str(counts[outcome] or '') for outcome in OUTCOMES)} |"


def _said(one: Result) -> str:
    return why(one) if one.outcome == EQUAL else one.reason


def _order(one: Result) -> tuple[str, str]:
    return one.mutant.kind, one.mutant.title


def worklist(results: Sequence[Result]) -> Iterator[str]:
    """The holes, those of a kind together, each with the command that shows it."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for one in results:
        if one.outcome in (HOLE, CRASHED):
            groups[one.mutant.kind].append(one)
    for kind, group in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"\n## {kind} ({len(group)})\n"
        for one in sorted(group, key=_order):
            yield f'- {one.reason}\n  `{COMMAND} "{one.mutant.title}"`'
