"""Publishes a result atomically: the data files, then the model, then its row."""

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
"""Rows of finished models, one per file, until the run ends."""
LEDGER = f"{METADATA_FOLDER}/rows.jsonl"
"""Rows of all models, after the run."""


class Publisher:
    """Writes the result of one model to the target.

    root: the path of the target.  name: of the model below it.  source: the model's URL.  previous_data_files: the
    locations of its data at the target after the previous run.
    """

    def __init__(
        self, storage: Storage, root: str, name: str, *, source: str = "", previous_data_files: Collection[str] = ()
    ) -> None:
        self._storage, self._root, self._name = storage, root, name
        self._source, self._previous_data_files = source, previous_data_files
        self._path = storage.join(root, name)

    def publish(self, out: Path, fetched: FetchedModel) -> tuple[dict[str, str], int]:
        """Write a model and its data files; returns their tokens by location, and the number of bytes written.

        Identical files are not written again.  Raises ModelFileError if a data file of another model has the same path.
        """
        with Model.open(out) as model:
            found = locations.files(out.parent, model.external_tensors)
        folder = self._path.rpartition("/")[0]
        paths = [(location, file, self._storage.join(folder, location)) for location, file in found.items()]
        for location, file, to in paths:
            self._require_own(location, file, to)
        paths.append(("", out, self._path))
        sent_files: list[tuple[str, str]] = []
        written = 0
        for location, file, to in paths:
            if not self._is_there(file, to, fetched):
                written += os.path.getsize(file)
                sent_files.append((self._send(location, file, to, fetched), to))
        self._rename_all(sent_files)
        return self._tokens({location: to for location, _, to in paths}), written

    def _require_own(self, location: str, file: Path, to: str) -> None:
        """Raise ModelFileError for another file of this name that no run produced from this model's data."""
        if not self._storage.is_local or location in self._previous_data_files:
            return
        if not os.path.exists(to) or same_content(file, Path(to)):
            return
        data = sibling_url(self._source, location), self._storage.url(to)
        for row in rows_at(self._storage, self._root):
            if location in row.made and (sibling_url(row.source, location), sibling_url(row.target, location)) == data:
                return
        raise ModelFileError(
            f"{to} exists, but is not a data file of this model. "
            "Remove it if nothing needs it, or give another folder."
        )

    def _is_there(self, file: Path, to: str, fetched: FetchedModel) -> bool:
        is_here = self._storage.is_local and file not in fetched.sparse_files
        return is_here and os.path.exists(to) and same_content(file, Path(to))

    def _rename_all(self, sent: Iterable[tuple[str, str]]) -> None:
        """Rename temporary files in order: the model comes last."""
        for before, to in sent:
            if before != to:
                self._storage.move(before, to)

    def _send(self, location: str, file: Path, target: str, fetched: FetchedModel) -> str:
        """Write a file under a temporary name; returns that name.  A file in the same storage is copied there."""
        if self._storage.is_local:
            fetched.complete(file)
            return str(file)  # the stage is inside the target
        to = self._temporary(location, target)
        source = fetched.data.get(location)
        if source is not None and source.size == os.path.getsize(file) and self._storage.is_same(fetched.storage):
            self._storage.copy(source.path, to)
        else:
            fetched.complete(file)
            self._storage.send(file, to)
        return to

    def _temporary(self, location: str, target: str) -> str:
        """The temporary name of a file; its final name if the storage writes atomically."""
        if self._storage.has_atomic_writes:
            return target
        mark = hashlib.sha256(f"{self._name}\n{location}".encode()).hexdigest()[:24]
        return staging_path(self._storage, self._root, f"{mark}-{os.getpid()}")

    def _tokens(self, paths: Mapping[str, str]) -> dict[str, str]:
        """The tokens of written files, by location."""
        found = {location: self._storage.stored(path) for location, path in paths.items()}
        return {location: file.token for location, file in found.items() if file is not None}

    def copy(self, fetched: FetchedModel) -> tuple[dict[str, str], int]:
        """Copy an unchanged model inside the storage, without a download.  Raises as `publish`."""
        folder = self._path.rpartition("/")[0]
        paths = {location: self._storage.join(folder, location) for location in fetched.data} | {"": self._path}
        files = fetched.data | {"": fetched.stored_file}
        for location, data in fetched.data.items():
            self._require_own(location, Path(data.path), paths[location])
        sent = [(location, self._temporary(location, to)) for location, to in paths.items()]
        for location, to in sent:
            self._storage.copy(files[location].path, to)
        self._rename_all((to, paths[location]) for location, to in sent)
        return self._tokens(paths), sum(file.size for file in files.values())

    def write_row(self, row: FleetRow) -> None:
        """Save the row of a model: the next run sees that the model is done."""
        mark = hashlib.sha256(self._name.encode()).hexdigest()[:32]
        self._storage.write_text(self._storage.join(self._root, f"{ROWS}/{mark}.json"), row.line())


def rows_at(storage: Storage, root: str) -> Iterator[FleetRow]:
    """The rows of previous runs at a target, later ones last."""
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
