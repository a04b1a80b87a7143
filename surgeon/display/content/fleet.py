"""A fleet as blocks: outcomes, failed models, changes, rules, and the slowest models."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from surgeon.automation.fleet.fleet import Fleet
from surgeon.automation.fleet.fleet_row import FleetRow
from surgeon.automation.gate.model_comparison import Difference
from surgeon.display.blocks import ARROW, DOT, Cell, Document, Number, Section, Span, Table, Text, outcome
from surgeon.display.content.report import counted_line
from surgeon.display.registry import reports
from surgeon.text import and_more, format_count, join_first, seconds_text

SHOWN, SHOWN_STALE, SHOWN_ROWS = 20, 5, 200  # failed models and changes; results of earlier runs; rows of a table
STALE = "The target still holds the result of an earlier run."
HEADS = ("model", "outcome", "rules", "sites", "nodes", "seconds", "why")


@reports(Fleet, "fleet")
def document(fleet: Fleet) -> Document:
    """All models of a fleet."""
    fired = [(Span(rule, "code"), count) for rule, count in fleet.counts.items()]
    details = [
        Section("differences from the baseline", [_changes(fleet.changes, "Changes since the baseline")]),
        Section("new since the last run", [_changes(fleet.since, "Changes since the last run to this target")]),
        Section("wrong", [_models(fleet.wrong, "Models that are wrong")]),
        Section("rules", [Table("How often each rule fired, over all models", ("rule", "sites"), fired)]),
        Section("slowest", [_models(fleet.slowest, "The models that took longest")]),
        Section("models", [_models(fleet, f"The first {SHOWN_ROWS:,} models, by name")]),
    ]
    counts = [part for name, count in fleet.outcomes.items() for part in (" ", DOT, f" {count:,} {name}")][2:]
    headline = f"{format_count(len(fleet), 'model')} ", *counts
    done = [counted_line(fleet.counts)] if fleet.counts else []
    return Document(f"Fleet in {fleet.to}", details, list(_summary(fleet)), headline=headline, done=done)


def _summary(fleet: Fleet) -> Iterator[tuple[Text, Text]]:
    """The outcome, each model that failed, changes, and the results."""
    failed, worst = sum(1 for _ in fleet.wrong), next(iter(fleet.outcomes), "unchanged")
    count, changed = failed or fleet.outcomes.get(worst, 0), len(fleet) - fleet.outcomes.get("unchanged", 0)
    total = format_count(len(fleet), "model") if failed or not changed else format_count(changed, "changed model")
    same = "; nothing differs from the baseline" if fleet.has_baseline and not fleet.changes else ""
    same += ", so the exit code is 0" if failed and same and fleet.ok else ""
    yield outcome("failed" if failed else worst), f"{count:,} of {total}{same}"
    yield from ((row.outcome, f"{row.model}: {row.why}") for row in islice(fleet.wrong, SHOWN))
    yield "", and_more(failed - SHOWN, "models (--rows FILE has all)").lstrip()
    noted = [row for row in fleet if row.why and not row.is_wrong and row.outcome != "unproved"]
    if noted:
        yield "note", f"{noted[0].model}: {noted[0].why}{and_more(len(noted) - 1, 'models have a note')}"
    stale = join_first([row.target for row in fleet.stale], SHOWN_STALE)
    advice = "from an earlier run. Delete it, or fix the model and run again."
    yield "stale", f"{stale}: {advice}" if stale else ""
    for change in fleet.changes[:SHOWN]:
        yield "worse" if change.is_regression else "other", f"{change.model}: {change.text}"
    yield "", and_more(len(fleet.changes) - SHOWN, "changes (--report FILE has all)").lstrip()
    news = Counter("worse" if change.is_regression else "other" for change in fleet.since)
    yield "since", ", ".join(f"{count:,} {word}" for word, count in news.items()) + " since the last run" * bool(news)
    yield "kept", f"{format_count(fleet.kept, 'model')} already up to date" if fleet.kept else ""
    yield "ended", Span(fleet.ended, "bad") if fleet.ended else ""
    written = format_count(sum(bool(row.made) for row in fleet), "model")
    wrote: Text = "nothing" if fleet.is_dry else (f"{written} to ", Span(fleet.to, "code"))
    advice = "" if fleet.has_rows else "; a row for each: --rows FILE"
    yield "wrote", (wrote, f" ({fleet.seconds:.1f} s", Span(advice, "shell"), ")")


def _changes(changes: Iterable[Difference], caption: str) -> Table:
    rows = [
        ("worse" if change.is_regression else "other", Span(change.model, "code"), change.what)
        for change in islice(changes, SHOWN_ROWS)
    ]
    return Table(caption, ("change", "model", "what"), rows)


def _models(rows: Iterable[FleetRow], caption: str) -> Table:
    return Table(caption, HEADS, list(map(_cells, islice(rows, SHOWN_ROWS))))


def _cells(row: FleetRow) -> Sequence[Cell]:
    fired = ", ".join(f"{rule} {count:,}" for rule, count in row.counts.items())
    nodes = (f"{row.nodes[0]:,} ", ARROW, f" {row.nodes[1]:,}") if row.nodes[0] else ""
    seconds = Number(seconds_text(row.seconds), row.seconds)
    why = f"{row.why} {STALE}".lstrip() if row.stale else row.why
    return Span(row.model, "code"), outcome(row.outcome), fired, sum(row.proofs.values()), nodes, seconds, why
