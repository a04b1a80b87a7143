"""Compares the rows of a run with those of a baseline: regressions, other changes, new and missing models."""

from collections.abc import Iterator
from dataclasses import dataclass

from surgeon.automation.fleet.fleet_row import OUTCOMES_BY_SEVERITY, FleetRow, row_from_dict
from surgeon.automation.fleet.run_database import RunDatabase
from surgeon.automation.fleet.table_files import read_table
from surgeon.errors import UsageError
from surgeon.result_base import JsonRecord


@dataclass(frozen=True, slots=True)
class FleetChange(JsonRecord):
    """One difference from the baseline."""

    JSON = "model what is_regression same_graph"

    model: str
    """The model's name below the target."""
    what: str
    """The change as a clause."""
    is_regression: bool
    """Whether the model is worse now."""
    same_graph: bool = True
    """Whether the model is unchanged apart from its weights."""


def load_baseline(path: str) -> RunDatabase:
    """The rows of a baseline.  Raises UsageError for a file without rows."""
    database = RunDatabase()
    try:
        database.add_previous_rows(row_from_dict(row) for row in read_table(path))
    except (TypeError, ValueError, KeyError, IndexError):
        raise UsageError(f"{path} contains no rows of a fleet. Give a file that --rows wrote.") from None
    return database


def changes(database: RunDatabase, baseline: RunDatabase) -> list[FleetChange]:
    """All differences from the baseline, regressions first."""
    found = [change for row in database.rows() for change in _changes_of_model(row, baseline.previous_row(row.model))]
    found += [
        FleetChange(row.model, "it is no longer among the models", False)
        for row in baseline.previous_rows()
        if not database.has(row.model)
    ]
    return sorted(found, key=lambda change: (not change.is_regression, change.model))


def since_last(database: RunDatabase) -> Iterator[FleetChange]:
    """Differences from the previous run to the same target, regressions first; nothing after the first run."""
    for is_regression in (True, False):
        for now, then in database.rows_with_previous() if database.has_previous_rows else ():
            yield from (change for change in _changes_of_model(now, then) if change.is_regression is is_regression)


def _changes_of_model(now: FleetRow, then: FleetRow | None) -> Iterator[FleetChange]:
    if then is None:
        why = f": {now.why}" if now.why else ""
        yield FleetChange(now.model, f"it is new, and {now.outcome}{why}", now.is_wrong)
        return
    same_graph = now.graph == then.graph

    def change(what: str, worse: bool) -> FleetChange:
        return FleetChange(now.model, what, worse, same_graph)

    if now.outcome != then.outcome:
        worse = (
            OUTCOMES_BY_SEVERITY.index(now.outcome) < OUTCOMES_BY_SEVERITY.index(then.outcome)
            and now.outcome != "proved"
        )
        why = f": {now.why}" if now.why else ""
        yield change(f"it is {now.outcome}, but was {then.outcome}{why}", worse)
    if now.is_wrong and not now.counts and now.outcome != "failed":
        return  # nothing to compare
    for rule in dict.fromkeys([*then.counts, *now.counts]):
        before, after = then.counts.get(rule, 0), now.counts.get(rule, 0)
        if before != after:
            times = "time" if after == 1 else "times"
            yield change(f"{rule} was applied {after:,} {times}, {before:,} before", after < before)
    lost = then.proofs.get("proved", 0) - now.proofs.get("proved", 0)
    open_now = sum(now.proofs.values()) - now.proofs.get("proved", 0)
    open_then = sum(then.proofs.values()) - then.proofs.get("proved", 0)
    if lost > 0 and open_now > open_then:
        yield change(f"{open_now:,} sites are not proved, {open_then:,} before", True)
    if now.nodes[1] != then.nodes[1] and then.nodes[1]:
        yield change(f"it has {now.nodes[1]:,} nodes, {then.nodes[1]:,} before", now.nodes[1] > then.nodes[1])
