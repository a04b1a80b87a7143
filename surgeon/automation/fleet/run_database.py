"""The state of a run on disk, so that memory does not grow with the number of models."""

import sqlite3
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from surgeon.automation.fleet.fleet_row import FleetRow, row_from_json
from surgeon.automation.fleet.storage.storage import sibling_url

_TABLES = """
CREATE TABLE plan (place INTEGER PRIMARY KEY, name TEXT UNIQUE, source TEXT, size INTEGER, token TEXT);
CREATE TABLE homes (folder TEXT, home TEXT, PRIMARY KEY (folder, home));
CREATE TABLE files (url TEXT PRIMARY KEY, token TEXT);
CREATE TABLE before (name TEXT PRIMARY KEY, line TEXT);
CREATE TABLE rows (name TEXT PRIMARY KEY, outcome TEXT, kept INTEGER, seconds REAL, line TEXT);
PRAGMA synchronous = OFF;
PRAGMA journal_mode = OFF;
"""


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model that the run covers."""

    name: str
    """The name below the target."""
    source: str
    """The URL."""
    size: int
    """The size of its file in bytes."""
    token: str
    """A token that changes with the file."""


class RunDatabase:
    """Tables of planned models, of files with their tokens, and of rows of the previous and of this run."""

    def __init__(self) -> None:
        # A temporary database, deleted when the process ends for any reason (sqlite.org/inmemorydb.html).
        self._tables = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._tables.executescript(_TABLES)
        self._end = weakref.finalize(self, self._tables.close)

    def close(self) -> None:
        """Close the database."""
        self._end()

    def plan(self, models: Iterable[PlannedModel]) -> tuple[str, str] | None:
        """Add models; returns the sources of the first two models with the same name, and stops there.

        A model that is given twice counts once.
        """
        for model in models:
            row = (model.name, model.source, model.size, model.token)
            query = "INSERT OR IGNORE INTO plan (name, source, size, token) VALUES (?, ?, ?, ?)"
            done = self._tables.execute(query, row)
            self._tables.execute("INSERT OR IGNORE INTO homes VALUES (?, ?)", _folders(model))
            if not done.rowcount:
                (other,) = self._tables.execute("SELECT source FROM plan WHERE name = ?", row[:1]).fetchone()
                if other != model.source:
                    return str(other), model.source
        return None

    def sibling_folders(self, model: PlannedModel) -> tuple[str, ...]:
        """Source folders of other models whose results go to the same folder as this model's result."""
        query = "SELECT home FROM homes WHERE folder = ? AND home != ? ORDER BY home"
        return tuple(home for (home,) in self._tables.execute(query, _folders(model)))

    def planned(self, *, largest_first: bool = False) -> Iterator[PlannedModel]:
        """The planned models."""
        order = "size DESC, place" if largest_first else "place"
        for row in self._tables.execute(f"SELECT name, source, size, token FROM plan ORDER BY {order}"):
            yield PlannedModel(*row)

    @property
    def count(self) -> int:
        """Number of planned models."""
        return int(self._tables.execute("SELECT COUNT(*) FROM plan").fetchone()[0])

    def has(self, name: str) -> bool:
        """Whether a model of this name is planned."""
        return self._tables.execute("SELECT 1 FROM plan WHERE name = ?", (name,)).fetchone() is not None

    def add_files(self, files: Iterable[tuple[str, str]]) -> None:
        """Add files by their URLs, with their tokens."""
        known = ((url, token) for url, token in files if url.isascii() or _is_text(url))
        self._tables.executemany("INSERT OR REPLACE INTO files VALUES (?, ?)", known)

    def file_token(self, url: str) -> str | None:
        """The token of a file; None if the file was not listed."""
        found = self._tables.execute("SELECT token FROM files WHERE url = ?", (url,)).fetchone()
        return None if found is None else str(found[0])

    def add_previous_rows(self, rows: Iterable[FleetRow]) -> None:
        """Add rows of the previous run; a later row of the same model replaces an earlier one."""
        lines = ((row.model, row.line()) for row in rows)
        self._tables.executemany("INSERT OR REPLACE INTO before VALUES (?, ?)", lines)

    def previous_row(self, name: str) -> FleetRow | None:
        """The row of the previous run."""
        found = self._tables.execute("SELECT line FROM before WHERE name = ?", (name,)).fetchone()
        return None if found is None else row_from_json(found[0])

    @property
    def has_previous_rows(self) -> bool:
        """Whether there are rows of a previous run."""
        return self._tables.execute("SELECT 1 FROM before LIMIT 1").fetchone() is not None

    def previous_rows(self) -> Iterator[FleetRow]:
        """All rows of the previous run."""
        for (line,) in self._tables.execute("SELECT line FROM before ORDER BY name"):
            row = row_from_json(line)
            if row is not None:
                yield row

    def add(self, row: FleetRow) -> None:
        """Add a row of this run."""
        values = (row.model, row.outcome, row.kept, row.seconds, row.line())
        self._tables.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?)", values)

    def row(self, name: str) -> FleetRow | None:
        """The row of this run."""
        found = self._tables.execute("SELECT line FROM rows WHERE name = ?", (name,)).fetchone()
        return None if found is None else row_from_json(found[0])

    def rows(self, *, outcome: str | None = None, slowest: int | None = None) -> Iterator[FleetRow]:
        """Rows of this run: by name, of one outcome, or the slowest ones."""
        where = "" if outcome is None else "WHERE outcome = :outcome"
        order = "name" if slowest is None else "kept, seconds DESC LIMIT :slowest"
        query = f"SELECT line FROM rows {where} ORDER BY {order}"
        for (line,) in self._tables.execute(query, {"outcome": outcome, "slowest": slowest}):
            row = row_from_json(line)
            if row is not None:
                yield row

    def rows_with_previous(self) -> Iterator[tuple[FleetRow, FleetRow | None]]:
        """Rows of models that this run did not skip, by name, each with the row of the previous run."""
        query = "SELECT r.line, b.line FROM rows r LEFT JOIN before b USING (name) WHERE NOT r.kept ORDER BY r.name"
        for line, previous in self._tables.execute(query):
            row = row_from_json(line)
            if row is not None:
                yield row, None if previous is None else row_from_json(previous)

    def outcomes(self) -> dict[str, int]:
        """The number of rows of this run by outcome."""
        return dict(self._tables.execute("SELECT outcome, COUNT(*) FROM rows GROUP BY outcome"))

    def kept(self) -> int:
        """The number of skipped models."""
        return int(self._tables.execute("SELECT COALESCE(SUM(kept), 0) FROM rows").fetchone()[0])


def _is_text(url: str) -> bool:
    """Whether a name is valid UTF-8; names of models and of their data always are."""
    try:
        url.encode()
    except UnicodeEncodeError:
        return False
    return True


def _folders(model: PlannedModel) -> tuple[str, str]:
    """The folder of the result below the target, and the folder of the source."""
    return model.name.rpartition("/")[0], sibling_url(model.source)
