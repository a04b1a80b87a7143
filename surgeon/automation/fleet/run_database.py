"""What a run knows of its models, on disk: a hundred thousand of them take no more memory than ten."""

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
    """A model that is to be worked on.  name: below the target.  source: its URL.  size, token: of its file."""

    name: str
    source: str
    size: int
    token: str


class RunDatabase:
    """Tables of what is planned, of what was found where, of the rows of last time and of those of now."""

    def __init__(self) -> None:
        # A file without a name, which goes with the process, however that ends (sqlite.org/inmemorydb.html).
        self._tables = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._tables.executescript(_TABLES)
        self._end = weakref.finalize(self, self._tables.close)

    def close(self) -> None:
        """Let go of it."""
        self._end()

    def plan(self, models: Iterable[PlannedModel]) -> tuple[str, str] | None:
        """Note what is planned; returns the first two sources of one name, after which nothing is noted.

        A model that is named again counts once.
        """
        for model in models:
            row = (model.name, model.source, model.size, model.token)
            asked = "INSERT OR IGNORE INTO plan (name, source, size, token) VALUES (?, ?, ?, ?)"
            done = self._tables.execute(asked, row)
            self._tables.execute("INSERT OR IGNORE INTO homes VALUES (?, ?)", _folders(model))
            if not done.rowcount:
                (other,) = self._tables.execute("SELECT source FROM plan WHERE name = ?", row[:1]).fetchone()
                if other != model.source:
                    return str(other), model.source
        return None

    def neighbours(self, model: PlannedModel) -> tuple[str, ...]:
        """The folders of other models whose results go to one folder with that of this, but for its own."""
        asked = "SELECT home FROM homes WHERE folder = ? AND home != ? ORDER BY home"
        return tuple(home for (home,) in self._tables.execute(asked, _folders(model)))

    def planned(self, *, largest_first: bool = False) -> Iterator[PlannedModel]:
        """What is planned."""
        order = "size DESC, place" if largest_first else "place"
        for row in self._tables.execute(f"SELECT name, source, size, token FROM plan ORDER BY {order}"):
            yield PlannedModel(*row)

    @property
    def count(self) -> int:
        """How many models are planned."""
        return int(self._tables.execute("SELECT COUNT(*) FROM plan").fetchone()[0])

    def has(self, name: str) -> bool:
        """Whether a model of this name is planned."""
        return self._tables.execute("SELECT 1 FROM plan WHERE name = ?", (name,)).fetchone() is not None

    def saw(self, files: Iterable[tuple[str, str]]) -> None:
        """Note files that there are, by their URLs, with what tells their state."""
        known = ((url, token) for url, token in files if url.isascii() or _is_text(url))
        self._tables.executemany("INSERT OR REPLACE INTO files VALUES (?, ?)", known)

    def state(self, url: str) -> str | None:
        """What tells the state of a file; None for one that was not seen."""
        found = self._tables.execute("SELECT token FROM files WHERE url = ?", (url,)).fetchone()
        return None if found is None else str(found[0])

    def remember(self, rows: Iterable[FleetRow]) -> None:
        """Note rows of last time; a later one of the same model counts."""
        lines = ((row.model, row.line()) for row in rows)
        self._tables.executemany("INSERT OR REPLACE INTO before VALUES (?, ?)", lines)

    def before(self, name: str) -> FleetRow | None:
        """The row of last time."""
        found = self._tables.execute("SELECT line FROM before WHERE name = ?", (name,)).fetchone()
        return None if found is None else row_from_json(found[0])

    @property
    def has_before(self) -> bool:
        """Whether there are rows of last time."""
        return self._tables.execute("SELECT 1 FROM before LIMIT 1").fetchone() is not None

    def all_before(self) -> Iterator[FleetRow]:
        """All rows of last time."""
        for (line,) in self._tables.execute("SELECT line FROM before ORDER BY name"):
            row = row_from_json(line)
            if row is not None:
                yield row

    def add(self, row: FleetRow) -> None:
        """Note a row of now."""
        values = (row.model, row.outcome, row.kept, row.seconds, row.line())
        self._tables.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?)", values)

    def row(self, name: str) -> FleetRow | None:
        """The row of now."""
        found = self._tables.execute("SELECT line FROM rows WHERE name = ?", (name,)).fetchone()
        return None if found is None else row_from_json(found[0])

    def rows(self, *, outcome: str | None = None, slowest: int | None = None) -> Iterator[FleetRow]:
        """Rows of now: by name, of one outcome, or so many of the slowest."""
        where = "" if outcome is None else "WHERE outcome = :outcome"
        order = "name" if slowest is None else "kept, seconds DESC LIMIT :slowest"
        asked = f"SELECT line FROM rows {where} ORDER BY {order}"
        for (line,) in self._tables.execute(asked, {"outcome": outcome, "slowest": slowest}):
            row = row_from_json(line)
            if row is not None:
                yield row

    def done_again(self) -> Iterator[tuple[FleetRow, FleetRow | None]]:
        """Rows of now, by name, but of models that were left as they were, each with that of last time."""
        asked = "SELECT r.line, b.line FROM rows r LEFT JOIN before b USING (name) WHERE NOT r.kept ORDER BY r.name"
        for line, before in self._tables.execute(asked):
            row = row_from_json(line)
            if row is not None:
                yield row, None if before is None else row_from_json(before)

    def outcomes(self) -> dict[str, int]:
        """How many rows of now have each outcome."""
        return dict(self._tables.execute("SELECT outcome, COUNT(*) FROM rows GROUP BY outcome"))

    def kept(self) -> int:
        """How many models were left as they were."""
        return int(self._tables.execute("SELECT COALESCE(SUM(kept), 0) FROM rows").fetchone()[0])


def _is_text(url: str) -> bool:
    """Whether a name is in UTF-8; none of a model or of its data is in anything else."""
    try:
        url.encode()
    except UnicodeEncodeError:
        return False
    return True


def _folders(model: PlannedModel) -> tuple[str, str]:
    """Where its result goes below the target, and where it lies itself."""
    return model.name.rpartition("/")[0], sibling_url(model.source)
