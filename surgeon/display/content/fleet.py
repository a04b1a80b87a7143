"""A fleet as blocks: outcomes, failed models, changes, rules, and the slowest models."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from surgeon.automation.fleet.baseline import FleetChange
from surgeon.automation.fleet.fleet import Fleet
from surgeon.automation.fleet.fleet_row import FleetRow
from surgeon.display.blocks import ARROW, Cell, Document, Number, Section, Span, Table, Text, outcome
from surgeon.display.registry import reports
from surgeon.text import and_more, join_first, seconds_text

SHOWN, SHOWN_STALE, SHOWN_ROWS = 20, 5, 200  # failed models and changes; results of earlier runs; rows of a table
STALE = "What lies at its target was not made by this run."
HEADS = ("model", "outcome", "rules", "sites", "nodes", "seconds", "why")


@reports(Fleet, "fleet")
def document(fleet: Fleet) -> Document:
    """All models of a fleet."""
    fired = [(Span(rule, "code"), count) for rule, count in fleet.counts.items()]
    details = [
        Section("otherwise than in the baseline", [_changes(fleet.changes, "Changes since the baseline")]),
        Section("new since the last run", [_changes(fleet.since, "Changes since the last run to this target")]),
        Section("wrong", [_models(fleet.wrong, "Models that are wrong")]),
        Section("rules", [Table("How often each rule fired, over all models", ("rule", "sites"), fired)]),
        Section("slowest", [_models(fleet.slowest, "The models that took longest")]),
        Section("models", [_models(fleet, f"The first {SHOWN_ROWS:,} models, by name")]),
    ]
    return Document(f"Fleet in {fleet.to}", details, list(_summary(fleet)))


def _summary(fleet: Fleet) -> Iterator[tuple[str, Text]]:
    outcomes = [f"{count:,} {name}" for name, count in fleet.outcomes.items()]
    yield "models", f"{len(fleet):,}: {', '.join(outcomes) or 'none done'}"
    yield "kept", f"{fleet.kept:,} were done already" if fleet.kept else ""
    yield "rules", ", ".join(f"{rule} {count:,}" for rule, count in fleet.counts.items()) or "nothing fired"
    wrong = list(islice(fleet.wrong, SHOWN + 1))
    yield from (("", (outcome(row.outcome), f" {row.model}: {row.why}")) for row in wrong[:SHOWN])
    yield "", "and more: see --rows" if len(wrong) > SHOWN else ""
    noted = [row for row in fleet if row.why and not row.is_wrong and row.outcome != "unproved"]
    if noted:
        yield "note", f"{noted[0].model}: {noted[0].why}{and_more(len(noted) - 1, 'models have a note')}"
    stale = [row.target for row in fleet.stale]
    if stale:
        advice = "not made by this run: remove such files, or mend the models and run again."
        yield "", (outcome("stale"), f" {join_first(stale, SHOWN_STALE)}: {advice}")
    for change in fleet.changes[:SHOWN]:
        export = "" if change.same_graph else " (the model itself is another)"
        yield "worse" if change.is_regression else "other", f"{change.model}: {change.what}{export}"
    if len(fleet.changes) > SHOWN:
        yield "", f"{and_more(len(fleet.changes) - SHOWN, 'changes').lstrip()}: see --report"
    news = Counter("worse" if change.is_regression else "otherwise" for change in fleet.since)
    if news:
        yield "since", f"the last run: {', '.join(f'{count:,} {word}' for word, count in news.items())}: see --report"
    yield "baseline", "all is as it was" if fleet.has_baseline and not fleet.changes else ""
    yield "slowest", ", ".join(f"{row.model} {seconds_text(row.seconds)}" for row in fleet.slowest[:3])
    yield "ended", Span(fleet.ended, "bad") if fleet.ended else ""
    yield "time", seconds_text(fleet.seconds)
    yield "written", "nothing" if fleet.is_dry else Span(fleet.to, "code")


def _changes(changes: Iterable[FleetChange], caption: str) -> Table:
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
