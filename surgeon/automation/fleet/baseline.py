"""Compares the rows of a run with those of a baseline, model by model."""

from collections.abc import Iterator

from surgeon.automation.fleet.fleet_row import FleetRow, row_from_dict
from surgeon.automation.fleet.run_database import RunDatabase
from surgeon.automation.fleet.table_files import read_table
from surgeon.automation.gate.model_comparison import Difference, compare_facts, version_changes
from surgeon.automation.gate.model_facts import ModelFacts, facts_of
from surgeon.errors import UsageError


def load_baseline(path: str) -> RunDatabase:
    """The rows of a baseline.  Raises UsageError for a file without rows, and for rows without facts."""
    database = RunDatabase()
    try:
        database.add_previous_rows(row_from_dict(row) for row in read_table(path))
    except (TypeError, ValueError, KeyError, IndexError):
        raise UsageError(f"{path} contains no rows of a fleet. Give a file that --rows wrote.") from None
    if any(_is_outdated(row) for row in database.previous_rows()):
        raise UsageError(f"{path} is of an older version, whose rows cannot be compared. Write it again with --rows.")
    return database


def changes(database: RunDatabase, baseline: RunDatabase) -> list[Difference]:
    """All differences from the baseline, regressions first."""
    found = [one for row in database.rows() for one in compare_rows(row, baseline.previous_row(row.model))]
    gone = (row for row in baseline.previous_rows() if not database.has(row.model))
    found += [one for row in gone for one in compare_facts(row.model, facts_of(row), None)]
    return sorted(found, key=lambda one: (not one.is_regression, one.model))


def since_last(database: RunDatabase) -> Iterator[Difference]:
    """Differences from the previous run to the same target, regressions first; nothing after the first run."""
    for is_regression in (True, False):
        for now, then in database.rows_with_previous() if database.has_previous_rows else ():
            if then is None or not _is_outdated(then):
                yield from (one for one in compare_rows(now, then) if one.is_regression is is_regression)


def compare_rows(now: FleetRow, then: FleetRow | None) -> list[Difference]:
    """The differences of one model, regressions first.  then: its row in the baseline; None for a new model."""
    facts: ModelFacts | None = None if then is None else facts_of(then)
    versions = "" if then is None else version_changes(then.versions, now.versions)
    return compare_facts(now.model, facts, facts_of(now), why=now.why, versions=versions)


def _is_outdated(row: FleetRow) -> bool:
    """Whether a row with a result has no facts, because an older version wrote it."""
    return not row.facts and (not row.is_wrong or bool(row.made))
