"""A model on its way from its storage to the recipe: in place where it is local, else fetched into the stage."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from surgeon.errors import ModelFileError
from surgeon.file import external
from surgeon.file.model import Model
from surgeon.fleet.orders import Job
from surgeon.fleet.storage import Storage, StoredFile, storage_of


@dataclass(slots=True)
class Taken:
    """A model that can be read.

    path: on this machine.  source: its URL.  data: its data files by location, each with its path in the storage.
    files: the state of all of them, by what they are called from the model's folder.  size: of all.  read: bytes that
    were fetched.
    """

    path: Path
    source: str
    storage: Storage
    data: dict[str, StoredFile] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    size: int = 0
    read: int = 0

    def named(self, text: str) -> str:
        """A sentence in which the model and its folder are called as a person calls them."""
        folder = self.source.rpartition("/")[0]
        return text.replace(str(self.path), self.source).replace(str(self.path.parent), folder)


def take(job: Job) -> Taken:
    """Bring a model within reach.  Raises ModelFileError where it is not there, or has lost its data."""
    storage, path = storage_of(job.source)
    model = storage.stored(path)
    if model is None:
        raise ModelFileError(f"{job.source} is not there any more.")
    taken = Taken(Path(path), job.source, storage, files={"": model.token}, size=model.size)
    if not storage.is_local:
        taken.path = job.stage / f"in-{path.rpartition('/')[2]}"
        storage.fetch(path, taken.path)
        taken.read += model.size
    for location in _locations(taken.path):
        file = storage.stored(storage.join(path.rpartition("/")[0], location))
        if file is None:
            raise ModelFileError(f"The data file {location} of {job.source} is not there; put it by the model.")
        taken.data[location] = file
        taken.files[location] = file.token
        taken.size += file.size
        if not storage.is_local:
            to = external.resolve(taken.path.parent, location)
            to.parent.mkdir(parents=True, exist_ok=True)
            storage.fetch(file.path, to)
            taken.read += file.size
    return taken


def _locations(path: Path) -> list[str]:
    """Where a model says that its data lie, each once; what leads out of its folder is refused."""
    with Model.open(path) as model:
        found = dict.fromkeys(external.extent_of(tensor).location for tensor in model.external_tensors)
    for location in found:
        external.resolve(Path(os.path.abspath(path)).parent, location)
    return list(found)
