"""A model that may be changed freely: its skeleton is a copy, over the data of files that stay as they are."""

import os
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path, PurePosixPath

import onnx

from surgeon.errors import ModelFileError
from surgeon.file import external
from surgeon.file.difference import difference
from surgeon.file.gathering import gathered
from surgeon.file.model import Model
from surgeon.file.patch import Patch
from surgeon.file.payloads import KEY, Payload, marked
from surgeon.file.wire import Buffer


class Editable(Model):
    """What a model is to be: change its `skeleton` at will, and ask for the `patch` that turns the source into it.

    Tensors whose data were cut out keep their marks, wherever they go and whatever they are called then; their values
    are read from the source, and written by the kernel.

    source  the model as its file has it; it must stay open as long as this one
    files   by location, data files of models that were adopted
    """

    def __init__(self, source: Model) -> None:
        self.__dict__.update(source.__dict__)
        self.__dict__.pop("external_tensors", None)  # found out once for a model, and this one changes
        self.source = source
        self.files: dict[str, Path] = {}
        self._owners: dict[int, Model] = {}  # of payloads of other models, by id()
        self.skeleton = onnx.ModelProto()
        self.skeleton.CopyFrom(source.skeleton)

    @property
    def data(self) -> Buffer:
        """The bytes of the source."""
        return self.source.data

    @property
    def external_tensors(self) -> list[onnx.TensorProto]:
        """As of any model, as the skeleton is now."""
        return self.find_external()

    def speaks_of(self, word: bytes) -> bool:
        """Whether the word stands in the skeleton."""
        return word in self.skeleton.SerializeToString()

    def owner(self, payload: Payload) -> Model:
        """The source, or the model that was adopted with this payload."""
        return self._owners.get(id(payload), self.source)

    def adopt(self, other: Model) -> onnx.ModelProto:
        """A copy of another model's skeleton, any part of which may be put into this one: its data come along.

        The other model must stay open as long as this one.  Its data files get other locations where two of one name
        would meet.  Raises ModelFileError where it came from memory, but its data lie in files.
        """
        copy, first = onnx.ModelProto(), len(self._payloads)
        copy.CopyFrom(other.skeleton)
        self._payloads = [*self._payloads, *other._payloads]
        self._owners.update((id(payload), other) for payload in other._payloads)
        if other._payloads:
            for tensor in marked(copy):
                entry = next(entry for entry in tensor.external_data if entry.key == KEY)
                entry.value = str(int(entry.value) + first)
        if other.external_tensors:
            self._bring(copy, other)
        return copy

    def patch(self, out: Path | None = None, *, whole: bool = True) -> Patch:
        """The least edits that turn the source into this; none where nothing was changed.

        out, whole: where it is to be written, and whether data files come along as they are; else of those of which
        less is used than was, the rest is left behind.
        """
        skeleton, fresh = (self.skeleton, None) if whole or out is None else gathered(self.source, self.skeleton, out)
        patch = difference(self.source, skeleton, self)
        patch.fresh, patch.files = fresh, self.files
        return patch

    def _bring(self, copy: onnx.ModelProto, other: Model) -> None:
        """Note where the data files of an adopted model lie, and what they are called from now on."""
        if other.path is None:
            raise ModelFileError("The model came from memory, so its data files are unknown: open it by its path.")
        taken: dict[str, Path | None] = {os.path.normpath(location): path for location, path in self.files.items()}
        for tensor in self.find_external():
            location = external.extent_of(tensor).location
            if location not in self.files:
                home = None if self.path is None else external.resolve(self.path.parent, location)
                taken[os.path.normpath(location)] = home
        named: dict[str, str] = {}
        for tensor in external.tensors_of(copy):
            if tensor.data_location != external.EXTERNAL or any(entry.key == KEY for entry in tensor.external_data):
                continue
            location = external.extent_of(tensor).location
            if location not in named:
                path = external.resolve(other.path.parent, location)
                named[location] = next(name for name in _names(location) if _is_free(name, path, taken))
                taken[os.path.normpath(named[location])] = self.files[named[location]] = path
            entry = next(entry for entry in tensor.external_data if entry.key == "location")
            entry.value = named[location]
        self._store = external.Store(None if self.path is None else self.path.parent, self.files)


def _names(location: str) -> Iterator[str]:
    """A location, and others like it."""
    yield location
    path = PurePosixPath(location)
    yield from (str(path.with_name(f"{path.stem}_{number}{path.suffix}")) for number in count(2))


def _is_free(name: str, path: Path, taken: Mapping[str, Path | None]) -> bool:
    """Whether a file may have this location: nothing else has it."""
    found = taken.get(os.path.normpath(name), path)
    return found is not None and (found == path or (found.exists() and path.exists() and os.path.samefile(found, path)))
