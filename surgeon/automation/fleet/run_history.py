"""Rows beside the results: written one by one while a run goes, put together when it ends, read by the next."""

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
    """What a target knows of its models.  root: the path of the target in its storage."""

    def __init__(self, storage: Storage, root: str, orders: FleetSettings) -> None:
        self._storage, self._root, self._orders = storage, root, orders
        self._lock: IO[str] | None = None

    def begin(self) -> None:
        """Note what is to be done, which shows that the target can be written; take away what a killed run left.

        Raises UsageError where another run writes to it.
        """
        self._lock = locked(self._storage, self._root)
        about = {
            "recipe": self._orders.recipe.text(),
            "key": self._orders.cache_key,
            "versions": dict(dependency_versions()),
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        text = json.dumps(about, ensure_ascii=False, indent=1) + "\n"
        self._storage.write_text(self._storage.join(self._root, _RUN), text)
        self._storage.remove(staging_path(self._storage, self._root))

    def before(self) -> Iterator[FleetRow]:
        """The rows that runs before have left, later ones last."""
        return rows_at(self._storage, self._root)

    def close(self) -> None:
        """Let another run write to the target."""
        if self._lock is not None:
            self._lock.close()

    def add(self, row: FleetRow) -> None:
        """Note a row that the process of its model did not: it was ended, or could not read the model."""
        if not row.made and not row.kept and row.outcome not in PASSING:
            with suppress(ModelFileError):  # another run finds it out anew
                Publisher(self._storage, self._root, row.model).note(row)

    def end(self, book: RunDatabase) -> None:
        """Put the rows of a run that is over into one file, with those of models that it was not over."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows"
            with file.open("w", encoding="utf-8") as lines:
                others = (row for row in book.all_before() if book.row(row.model) is None)
                lines.writelines(f"{row.line()}\n" for row in chain(others, book.rows()))
            self._storage.send(file, self._storage.join(self._root, LEDGER))
        self._storage.remove(self._storage.join(self._root, ROWS))
        self._storage.remove(staging_path(self._storage, self._root))


def kept(job: ModelJob, book: RunDatabase, source: Storage, target: Storage) -> FleetRow | None:
    """The row of last time where nothing has changed since: model, data, recipe, versions and result.

    What took too long or too much is tried again where it is given more now.
    """
    row = book.before(job.name)
    if row is None or row.key != job.orders.cache_key or row.source != job.source or row.outcome in PASSING:
        return None
    if row.outcome in ("late", "memory") and row.limits != job.orders.limits:
        return None
    if not row.files or (not row.made and not row.is_wrong):
        return None
    for url, files, storage in ((row.source, row.files, source), (row.target, row.made, target)):
        if any(_state(url, location, book, storage) != token for location, token in files.items()):
            return None
    row.kept, row.read, row.written = True, 0, 0
    return row


def _state(url: str, location: str, book: RunDatabase, storage: Storage) -> str | None:
    """The state of a file that is called so from the folder of a model."""
    place = sibling_url(url, location) if location else url
    state = book.state(place)
    if state is None:  # it lies where nobody looked
        file = storage.stored(storage_of(place)[1])
        state = None if file is None else file.token
    return state
