"""A result on its way to its target: whole or not there, its data before it, and its row last."""

import hashlib
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from surgeon.automation.fleet.execution.fetch import FetchedModel
from surgeon.automation.fleet.fleet_row import FleetRow, row_from_json
from surgeon.automation.fleet.storage.storage import METADATA_FOLDER, Storage, sibling_url, staging_path
from surgeon.errors import ModelFileError
from surgeon.file.external_data import locations
from surgeon.file.io.file_copy import same_content
from surgeon.file.model import Model

ROWS = f"{METADATA_FOLDER}/rows"
"""Rows of models that are done, one a file, until a run ends."""
LEDGER = f"{METADATA_FOLDER}/rows.jsonl"
"""Rows of all models, from then on."""


class Publisher:
    """What one model's target takes.

    root: the target of all.  name: of the model below it.  source: its URL.  made: the locations of its data there,
    as of last time.
    """

    def __init__(
        self, storage: Storage, root: str, name: str, source: str = "", made: Collection[str] = ()
    ) -> None:
        self._storage, self._root, self._name = storage, root, name
        self._source, self._made = source, made
        self._path = storage.join(root, name)

    def publish(self, out: Path, taken: FetchedModel) -> tuple[dict[str, str], int]:
        """Put a model and its data files there; their states by location, and the bytes that were written.

        What is there already, byte by byte, is left as it is.  Raises ModelFileError where data of another model lie in
        the place of its own.
        """
        with Model.open(out) as model:
            found = locations.files(out.parent, model.external_tensors)
        home = self._path.rpartition("/")[0]
        places = [(location, file, self._storage.join(home, location)) for location, file in found.items()]
        for location, file, to in places:
            self._require_own(location, file, to)
        places.append(("", out, self._path))
        waiting: list[tuple[str, str]] = []
        written = 0
        for location, file, to in places:
            if not self._is_there(file, to, taken):
                written += os.path.getsize(file)
                waiting.append((self._send(location, file, to, taken), to))
        self._reveal(waiting)
        return self._states({location: to for location, _, to in places}), written

    def _require_own(self, location: str, file: Path, to: str) -> None:
        """Raise ModelFileError where another file of this name is there, which no run made of this model's data."""
        if not self._storage.is_local or location in self._made:
            return
        if not os.path.exists(to) or same_content(file, Path(to)):
            return
        data = sibling_url(self._source, location), self._storage.url(to)
        for row in rows_at(self._storage, self._root):
            if location in row.made and (sibling_url(row.source, location), sibling_url(row.target, location)) == data:
                return
        raise ModelFileError(
            f"{to} is there and holds something else than the data file of this model: "
            "remove it where nothing needs it, or give another folder."
        )

    def _is_there(self, file: Path, to: str, taken: FetchedModel) -> bool:
        is_here = self._storage.is_local and file not in taken.ranged
        return is_here and os.path.exists(to) and same_content(file, Path(to))

    def _reveal(self, sent: Iterable[tuple[str, str]]) -> None:
        """Give files their own names, in order: the model comes last."""
        for before, to in sent:
            if before != to:
                self._storage.move(before, to)

    def _send(self, location: str, file: Path, target: str, taken: FetchedModel) -> str:
        """Put a file under a temporary name; that name.  Where the storage has it already, it copies by itself."""
        if self._storage.is_local:
            taken.complete(file)
            return str(file)  # the stage lies there already
        to = self._temporary(location, target)
        source = taken.data.get(location)
        if source is not None and source.size == os.path.getsize(file) and self._storage.is_same(taken.storage):
            self._storage.copy(source.path, to)
        else:
            taken.complete(file)
            self._storage.send(file, to)
        return to

    def _temporary(self, location: str, target: str) -> str:
        """The name for a file on its way: its own where nobody sees it before it is whole."""
        if self._storage.has_atomic_writes:
            return target
        mark = hashlib.sha256(f"{self._name}\n{location}".encode()).hexdigest()[:24]
        return staging_path(self._storage, self._root, f"{mark}-{os.getpid()}")

    def _states(self, places: Mapping[str, str]) -> dict[str, str]:
        """What tells the state of files that were put there, by location."""
        found = {location: self._storage.stored(path) for location, path in places.items()}
        return {location: file.token for location, file in found.items() if file is not None}

    def copy(self, taken: FetchedModel) -> tuple[dict[str, str], int]:
        """Put a model there as it is, not here on the way where the storage copies by itself.  Raises as `publish`."""
        home = self._path.rpartition("/")[0]
        places = {location: self._storage.join(home, location) for location in taken.data} | {"": self._path}
        files = taken.data | {"": taken.stored_file}
        for location, data in taken.data.items():
            self._require_own(location, Path(data.path), places[location])
        sent = [(location, self._temporary(location, to)) for location, to in places.items()]
        for location, to in sent:
            self._storage.copy(files[location].path, to)
        self._reveal((to, places[location]) for location, to in sent)
        return self._states(places), sum(file.size for file in files.values())

    def note(self, row: FleetRow) -> None:
        """Put the row of a model there, by which another run knows that it is done."""
        mark = hashlib.sha256(self._name.encode()).hexdigest()[:32]
        self._storage.write_text(self._storage.join(self._root, f"{ROWS}/{mark}.json"), row.line())


def rows_at(storage: Storage, root: str) -> Iterator[FleetRow]:
    """The rows that runs have left at a target, later ones last."""
    path = storage.join(root, LEDGER)
    if storage.stored(path) is not None:
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder) / "rows"
            storage.download(path, here)
            with here.open(encoding="utf-8") as lines:
                yield from (row for line in lines if (row := row_from_json(line)) is not None)
    for file in storage.find(storage.join(root, ROWS)):
        row = row_from_json(storage.text(file.path) or "")
        if row is not None:
            yield row
