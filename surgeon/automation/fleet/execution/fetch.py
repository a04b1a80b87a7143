"""A model on its way from its storage to the recipe: in place where it is local, else as much of it as is read.

Of a model in a store the skeleton comes first.  The data of tensors come where a rule or a proof looks at them, and all
of them where the recipe has steps that other programs have a part in; what only goes along is never here.
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
from surgeon.file.external_data.on_demand import brought
from surgeon.file.model import Model

WHOLE = 1 << 20  # bytes up to which a file is not worth reading in parts


@dataclass(slots=True)
class FetchedModel:
    """A model that can be read.

    path: on this machine.  source: its URL.  stored_file: its file in the storage, and data: those of its data by
    location.  ranged: those files that are not here whole, by path.  files: the state of all of them, by what they are
    called from the model's folder.  size: of all.
    """

    path: Path
    source: str
    storage: Storage
    stored_file: StoredFile
    data: dict[str, StoredFile] = field(default_factory=dict)
    ranged: dict[Path, SparseFile] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    size: int = 0

    @property
    def read(self) -> int:
        """Bytes that were brought from a store."""
        return sum(file.brought for file in self.ranged.values())

    @property
    def is_partial(self) -> bool:
        """Whether some of it is not here."""
        return any(file.brought < file.size for file in self.ranged.values())

    def complete(self, path: Path | None = None) -> None:
        """Bring the rest of one file, or of all."""
        for file in self.ranged.values() if path is None else [self.ranged[path]] if path in self.ranged else []:
            file.bring(0, None)

    def require_brought(self) -> None:
        """Raise again what the store failed at, for whoever could not read data may have gone on without."""
        for file in self.ranged.values():
            if file.failed is not None:
                raise file.failed

    def named(self, text: str) -> str:
        """A sentence in which the model and its folder are called as a person calls them."""
        folder = self.source.rpartition("/")[0]
        return text.replace(str(self.path), self.source).replace(str(self.path.parent), folder)


@contextmanager
def take(job: ModelJob) -> Iterator[FetchedModel]:
    """Bring a model within reach.  Raises ModelFileError where it is not there, or has lost its data."""
    storage, path = storage_of(job.source)
    model = storage.stored(path)
    if model is None:
        is_link = storage.is_local and os.path.islink(path)
        raise ModelFileError(
            f"{job.source} is a link to what is not there: mend or remove it." if is_link
            else f"{job.source} is not there any more."
        )
    taken = FetchedModel(Path(path), job.source, storage, model, files={"": model.token}, size=model.size)
    if not storage.is_local:
        taken.path = job.stage / f"in-{path.rpartition('/')[2]}"
        taken.ranged[taken.path] = file = SparseFile(storage, model, taken.path)
        if model.size > WHOLE:
            bring_skeleton(file)
        else:
            file.bring(0, None)
    try:
        locations = _locations(taken.path)
    except SurgeonError as error:
        raise ModelFileError(taken.named(str(error))) from None
    for location in locations:
        data = storage.stored(storage.join(path.rpartition("/")[0], location))
        if data is None:
            raise ModelFileError(f"The data file {location} of {job.source} is not there; put it by the model.")
        taken.data[location] = data
        taken.files[location] = data.token
        taken.size += data.size
        if not storage.is_local:
            to = external.resolve(taken.path.parent, location)
            taken.ranged[to] = SparseFile(storage, data, to)
    if not reads_by_asking(job.orders.recipe) or job.orders.external_data == "inline":
        taken.complete()
    with brought(taken.ranged):
        yield taken


def reads_by_asking(recipe: Recipe) -> bool:
    """Whether all steps ask for the data that they look at: rules do, while edits have whole models run."""
    return all(isinstance(step, Rules) and step.upgrade == "none" for step in recipe.steps)


def _locations(path: Path) -> list[str]:
    """Where a model says that its data lie, each once; what leads out of its folder is refused."""
    with Model.open(path) as model:
        found = dict.fromkeys(external.extent_of(tensor).location for tensor in model.external_tensors)
    for location in found:
        external.resolve(Path(os.path.abspath(path)).parent, location)
    return list(found)
