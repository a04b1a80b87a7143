"""Fetches a model from its storage: a local model is used in place, a remote one is downloaded as needed.

First the skeleton of a remote model is downloaded.  The data of a tensor follow when a rule or a proof reads them, or
all data at once if the recipe has steps that run other programs.  Unread data are copied inside the store.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from surgeon.automation.fleet.job import ModelJob
from surgeon.automation.fleet.storage.sparse_file import SparseFile, bring_skeleton
from surgeon.automation.fleet.storage.storage import Storage, StoredFile, storage_of
from surgeon.automation.recipes.recipe import Recipe, Rules
from surgeon.errors import ModelFileError, SurgeonError
from surgeon.file.external_data import locations as external
from surgeon.file.external_data.on_demand import fetched_on_demand
from surgeon.file.model import Model

SMALL_FILE = 1 << 20  # files up to this size are downloaded at once


@dataclass(slots=True)
class FetchedModel:
    """A model that can be read."""

    path: Path
    """The path on this machine."""
    source: str
    """The model's URL."""
    storage: Storage
    """The storage of the model."""
    stored_file: StoredFile
    """The model's file in the storage."""
    data: dict[str, StoredFile] = field(default_factory=dict)
    """The data files in the storage, by location."""
    sparse_files: dict[Path, SparseFile] = field(default_factory=dict)
    """The files that are downloaded on demand, by local path."""
    files: dict[str, str] = field(default_factory=dict)
    """A token of each file, by its path relative to the model's folder; "" is the model."""
    size: int = 0
    """Bytes of all files."""

    @property
    def read(self) -> int:
        """Bytes downloaded from a store."""
        return sum(file.brought for file in self.sparse_files.values())

    @property
    def is_partial(self) -> bool:
        """Whether some bytes are not downloaded."""
        return any(file.brought < file.size for file in self.sparse_files.values())

    def complete(self, path: Path | None = None) -> None:
        """Download the rest of one file, or of all."""
        for local_path, file in self.sparse_files.items():
            if path is None or local_path == path:
                file.fetch(0, None)

    def require_brought(self) -> None:
        """Raise the last error of the store: a reader may have continued without the data."""
        for file in self.sparse_files.values():
            if file.failed is not None:
                raise file.failed

    def with_public_names(self, text: str) -> str:
        """A message in which the model and its folder have their URLs."""
        folder = self.source.rpartition("/")[0]
        return text.replace(str(self.path), self.source).replace(str(self.path.parent), folder)


@contextmanager
def fetch_model(job: ModelJob) -> Iterator[FetchedModel]:
    """Make a model readable.  Raises ModelFileError if the model or its data are missing."""
    storage, path = storage_of(job.model.source)
    model = storage.stored(path)
    if model is None:
        is_link = storage.is_local and os.path.islink(path)
        raise ModelFileError(
            f"{job.model.source} is a broken link. Fix or remove it." if is_link
            else f"{job.model.source} does not exist any more."
        )
    fetched = FetchedModel(Path(path), job.model.source, storage, model, files={"": model.token}, size=model.size)
    if not storage.is_local:
        fetched.path = job.stage / f"in-{path.rpartition('/')[2]}"
        fetched.sparse_files[fetched.path] = file = SparseFile(storage, model, fetched.path)
        if model.size > SMALL_FILE:
            bring_skeleton(file)
        else:
            file.fetch(0, None)
    try:
        locations = _locations(fetched.path)
    except SurgeonError as error:
        raise ModelFileError(fetched.with_public_names(str(error))) from None
    for location in locations:
        data = storage.stored(storage.join(path.rpartition("/")[0], location))
        if data is None:
            raise ModelFileError(f"The data file {location} of {job.model.source} is missing. Copy it to its folder.")
        fetched.data[location] = data
        fetched.files[location] = data.token
        fetched.size += data.size
        if not storage.is_local:
            to = external.resolve(fetched.path.parent, location)
            fetched.sparse_files[to] = SparseFile(storage, data, to)
    if not reads_data_on_demand(job.settings.recipe) or job.settings.external_data == "inline":
        fetched.complete()
    with fetched_on_demand(fetched.sparse_files):
        yield fetched


def reads_data_on_demand(recipe: Recipe) -> bool:
    """Whether all steps read data on demand: rules do, edits run whole models."""
    return all(isinstance(step, Rules) and step.upgrade == "none" for step in recipe.steps)


def _locations(path: Path) -> list[str]:
    """The distinct locations of a model's data.  Raises an error for one outside its folder."""
    with Model.open(path) as model:
        found = dict.fromkeys(external.extent_of(tensor).location for tensor in model.external_tensors)
    for location in found:
        external.resolve(Path(os.path.abspath(path)).parent, location)
    return list(found)
