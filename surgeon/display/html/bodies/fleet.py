"""The HTML of a fleet: outcomes, failed models, changes, rules, and the slowest models."""

from collections.abc import Iterable
from itertools import islice

from surgeon.automation.fleet.baseline import FleetChange
from surgeon.automation.fleet.fleet import Fleet
from surgeon.automation.fleet.fleet_row import FleetRow
from surgeon.display.html.elements import (
    Cell,
    HtmlContent,
    Markup,
    RenderContext,
    Row,
    code,
    concat,
    fields,
    outcome_badge,
    outcome_note,
    section,
    table,
)
from surgeon.display.registry import register_view
from surgeon.text import seconds_text

MAX_ROWS = 200  # rows of one table


@register_view(Fleet, "fleet", lambda fleet: f"Fleet in {fleet.to}")
def fleet_body(fleet: Fleet, context: RenderContext) -> Markup:
    """All models of a fleet."""
    head: list[tuple[str, HtmlContent]] = [
        ("outcomes", ", ".join(f"{count:,} {outcome}" for outcome, count in fleet.outcomes.items())),
        ("kept", f"{fleet.kept:,} were done already" if fleet.kept else ""),
        ("ended", fleet.ended),
        ("time", seconds_text(fleet.seconds)),
        ("written", "nothing" if fleet.is_dry else code(fleet.to)),
    ]
    fired = [(code(rule), count) for rule, count in fleet.counts.items()]
    every = ("model", "outcome", "rules", "sites", "nodes", "seconds", "why")
    caption = f"The first {MAX_ROWS:,} models, by name"
    return concat((
        outcome_note("proved" if fleet.ok else "failed", f"{len(fleet):,} models"),
        fields(pair for pair in head if pair[1]),
        section("Otherwise than in the baseline", _changes(fleet.changes, "Changes since the baseline")),
        section("New since the last run", _changes(fleet.since, "Changes since the last run to this target")),
        section("Wrong", table(every, map(_cells, islice(fleet.wrong, MAX_ROWS)), "Models that are wrong")),
        section("Rules", table(("rule", "sites"), fired, "How often each rule fired, over all models")),
        section("Slowest", table(every, map(_cells, fleet.slowest), "The models that took longest")),
        section("Models", table(every, map(_cells, islice(fleet, MAX_ROWS)), caption)),
    ))


STALE = "What lies at its target was not made by this run."


def _changes(changes: Iterable[FleetChange], caption: str) -> Markup:
    rows = [
        ("worse" if change.is_regression else "other", code(change.model), change.what)
        for change in islice(changes, MAX_ROWS)
    ]
    return table(("change", "model", "what"), rows, caption)


def _cells(row: FleetRow) -> Row:
    fired = ", ".join(f"{rule} {count:,}" for rule, count in row.counts.items())
    sites = sum(row.proofs.values())
    nodes = "{:,} → {:,}".format(*row.nodes) if row.nodes[0] else ""
    seconds = Cell(seconds_text(row.seconds), row.seconds)
    why = f"{row.why} {STALE}".lstrip() if row.stale else row.why
    return code(row.model), outcome_badge(row.outcome), fired, sites, nodes, seconds, why
