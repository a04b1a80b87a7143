"""Saves the rows of a run in the folder of its results, so that the next run can read them."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import IO

from surgeon.automation.fleet.execution.publish import LEDGER, ROWS, Publisher, rows_at
from surgeon.automation.fleet.fleet_row import PASSING, FleetRow
from surgeon.automation.fleet.job import FleetSettings, ModelJob, dependency_versions
from surgeon.automation.fleet.run_database import RunDatabase
from surgeon.automation.fleet.storage.storage import METADATA_FOLDER, Storage, sibling_url, staging_path, storage_of
from surgeon.automation.fleet.storage.target_lock import locked
from surgeon.errors import ModelFileError

_RUN = f"{METADATA_FOLDER}/run.json"


class RunHistory:
    """The rows that a target keeps of its models.  root: the path of the target in its storage."""

    def __init__(self, storage: Storage, root: str, settings: FleetSettings) -> None:
        self._storage, self._root, self._settings = storage, root, settings
        self._lock: IO[str] | None = None

    def begin(self) -> None:
        """Lock the target, record the run, which shows that the target is writable, and remove files of a killed run.

        Raises UsageError if another run writes to the target.
        """
        self._lock = locked(self._storage, self._root)
        about = {
            "recipe": self._settings.recipe.text(),
            "key": self._settings.cache_key,
            "versions": dict(dependency_versions()),
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        text = json.dumps(about, ensure_ascii=False, indent=1) + "\n"
        self._storage.write_text(self._storage.join(self._root, _RUN), text)
        self._storage.remove(staging_path(self._storage, self._root))

    def previous_rows(self) -> Iterator[FleetRow]:
        """The rows of previous runs, later ones last."""
        return rows_at(self._storage, self._root)

    def close(self) -> None:
        """Unlock the target."""
        if self._lock is not None:
            self._lock.close()

    def add(self, row: FleetRow) -> None:
        """Save a row that the process of its model did not save: it was killed, or could not read the model."""
        if not row.made and not row.kept and row.outcome not in PASSING:
            with suppress(ModelFileError):  # the next run works on the model again
                Publisher(self._storage, self._root, row.model).write_row(row)

    def end(self, database: RunDatabase) -> None:
        """Merge the rows of this run and of all other models into one file."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows"
            with file.open("w", encoding="utf-8") as lines:
                others = (row for row in database.previous_rows() if database.row(row.model) is None)
                lines.writelines(f"{row.line()}\n" for row in chain(others, database.rows()))
            self._storage.send(file, self._storage.join(self._root, LEDGER))
        self._storage.remove(self._storage.join(self._root, ROWS))
        self._storage.remove(staging_path(self._storage, self._root))


def up_to_date_row(job: ModelJob, database: RunDatabase, source: Storage, target: Storage) -> FleetRow | None:
    """The previous row of a model if model, data, recipe, versions and result are unchanged; else None.

    A model that exceeded a limit is tried again under other limits.
    """
    row = database.previous_row(job.model.name)
    if row is None or row.key != job.settings.cache_key or row.source != job.model.source or row.outcome in PASSING:
        return None
    if row.outcome in ("late", "memory") and row.limits != job.settings.limits.to_list():
        return None
    if not row.files or (not row.made and not row.is_wrong):
        return None
    for url, files, storage in ((row.source, row.files, source), (row.target, row.made, target)):
        if any(_file_token(url, location, database, storage) != token for location, token in files.items()):
            return None
    row.kept, row.read, row.written = True, 0, 0
    return row


def _file_token(url: str, location: str, database: RunDatabase, storage: Storage) -> str | None:
    """The token of a file, given relative to the folder of a model."""
    place = sibling_url(url, location) if location else url
    state = database.file_token(place)
    if state is None:  # outside the listed folders
        file = storage.stored(storage_of(place)[1])
        state = None if file is None else file.token
    return state
