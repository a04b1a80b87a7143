"""A model that may be changed freely: its skeleton is a copy, over data files that stay unchanged."""

import os
from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property
from itertools import count
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import EncodeError

from surgeon.errors import ModelFileError
from surgeon.file.external_data import locations
from surgeon.file.external_data.new_file import LARGE
from surgeon.file.external_data.repack import repack_converted, repack_unused
from surgeon.file.io.file_copy import same_content
from surgeon.file.io.path_encoding import local
from surgeon.file.model import Address, Model
from surgeon.file.patch import Patch
from surgeon.file.protobuf.payloads import DATA_FIELDS, PAYLOAD_KEY, Payload, marked
from surgeon.file.protobuf.wire_format import Buffer
from surgeon.file.skeleton_edits import message_at
from surgeon.file.tensors.casting import CHANGE, Caster, DataChange, TensorCast
from surgeon.file.tensors.decoding import Array, raw_size

_MAX_SHARED = 1 << 30
"""Bytes of raw data from which a new tensor keeps them, as protobuf serialises less than 2 GiB."""


class EditableModel(Model):
    """The target state of a model: change its `skeleton` freely, then get the `patch` that turns the source into it.

    Tensors whose data were cut out keep their marks, even if they are moved or renamed; their values are read from the
    source, and copied by the kernel.  An editable model may begin as a copy of another one over the same source.

    source  the model as in its file; it must stay open as long as this one
    before  the model that this one began as: the source, or another editable model
    files   by location, data files of adopted models
    recasts changes of tensor data, done when they are written
    """

    source: Model
    before: Model

    def __init__(self, before: Model) -> None:
        earlier = before if isinstance(before, EditableModel) else None
        if earlier is not None:
            earlier.skeleton  # noqa: B018  # making it may add payloads
        self.__dict__.update(before.__dict__)
        for name in ("external_tensors", "external_bytes", "skeleton"):  # cached, but this model changes
            self.__dict__.pop(name, None)
        self.before, self.source = before, earlier.source if earlier is not None else before
        self.files: dict[str, Path] = dict(earlier.files) if earlier is not None else {}
        self._held = dict(before.held)
        self.held = self._held
        # Owners of payloads of other models, by id() of the payload.
        self._owners: dict[int, Model] = dict(earlier._owners) if earlier is not None else {}
        self.recasts: list[DataChange] = list(earlier.recasts) if earlier is not None else []
        # Whether nodes are written in topological order even if the file has them in another one.
        self.sorts: bool = earlier.sorts if earlier is not None else False
        # Conversions by the place of the data.
        self._changes: dict[Hashable, TensorCast] = dict(earlier._changes) if earlier is not None else {}

    @cached_property
    def skeleton(self) -> onnx.ModelProto:  # type: ignore[override]  # copied when it is first read
        """The skeleton, which may be changed; at first a copy of the one before."""
        return self._copied()

    def node_count(self) -> int | None:
        """The number of nodes, functions inlined and bodies included; None if the skeleton has to be counted."""
        return None

    def reset(self) -> None:
        """Undo all changes of the skeleton."""
        self.__dict__.pop("skeleton", None)

    def become(self, other: "EditableModel") -> None:
        """Take over the changes of another editable model that began as the same model."""
        self.__dict__.update(other.__dict__)

    def _copied(self) -> onnx.ModelProto:
        made = onnx.ModelProto()
        made.CopyFrom(self.before.skeleton)
        return made

    @property
    def data(self) -> Buffer:
        """The bytes of the source."""
        return self.source.data

    @property
    def external_tensors(self) -> list[onnx.TensorProto]:
        """The same as in any model, of the current skeleton."""
        return self.find_external()

    def contains_word(self, word: bytes) -> bool:
        """Whether the skeleton contains the word."""
        try:
            return word in self.skeleton.SerializeToString()
        except (EncodeError, ValueError):  # it has 2 GiB of new tensors
            return True

    def record(self, where: Address, field: int, index: int) -> bytes:
        """The body of a record of the skeleton; its tensors keep their marks."""
        data: bytes = message_at(self.skeleton, (*where, (field, index))).SerializeToString()
        return data

    def value(self, tensor: onnx.TensorProto) -> Array:
        """The value of a tensor of the skeleton, converted if its data are to be."""
        change = self.recast_of(tensor)
        if change is None:
            return super().value(tensor)
        return change.unseen().array(super().value(change.stored(tensor)))

    def span(self, tensor: onnx.TensorProto) -> tuple[int, int] | None:
        """As for any model, for a tensor whose data are in the source and stay as they are."""
        payload = self._payload(tensor)
        is_own = payload is not None and id(payload) not in self._owners and self.recast_of(tensor) is None
        return super().span(tensor) if is_own else None

    def owner(self, payload: Payload) -> Model:
        """The source, or the adopted model with this payload."""
        return self._owners.get(id(payload), self.source)

    def recast(
        self, tensor: onnx.TensorProto, new: int, *, saturate: bool = False, by: Caster | None = None
    ) -> TensorCast:
        """Convert a tensor of the skeleton to another dtype, given as `TensorProto.DataType`.

        Data in a file are converted when they are written, which also fills `seen`.  by: does the conversion.
        """
        change = TensorCast(tensor.name, tensor.data_type, new, saturate, kernel=by)
        if tensor.data_location == locations.EXTERNAL:
            place = *((entry.key, entry.value) for entry in tensor.external_data), tensor.data_type, new, saturate
            change = self._changes.setdefault(place, change)  # shared data are converted once
            tensor.external_data.add(key=CHANGE, value=str(len(self.recasts)))
            self.recasts.append(change)
            tensor.data_type = new
            return change
        array = change.array(self.value(tensor))
        for field in DATA_FIELDS:
            tensor.ClearField(onnx.TensorProto.DESCRIPTOR.fields_by_number[field].name)
        tensor.data_type, tensor.raw_data = new, array.tobytes()
        return change

    def derive(self, tensor: onnx.TensorProto, made: onnx.TensorProto, change: DataChange) -> onnx.TensorProto:
        """Give a new tensor the changed data of another one of the skeleton.

        made: its name, dtype and shape.  Data in a file are changed when they are written; other data now.
        """
        if tensor.data_location == locations.EXTERNAL and self.recast_of(tensor) is None:
            made.data_location = locations.EXTERNAL
            made.external_data.extend(tensor.external_data)
            made.external_data.add(key=CHANGE, value=str(len(self.recasts)))
            self.recasts.append(change)
        else:
            made.raw_data = change.array(self.value(tensor)).tobytes()
        return made

    def recast_of(self, tensor: onnx.TensorProto) -> DataChange | None:
        """The conversion of a tensor's data when they are written; None if they are unchanged."""
        number = next((entry.value for entry in tensor.external_data if entry.key == CHANGE), "")
        return self.recasts[int(number)] if number else None

    def adopt(self, other: Model, out: Path | None = None) -> onnx.ModelProto:
        """A copy of another model's skeleton, any part of which may be added to this one, with its data.

        The other model must stay open as long as this one.  Data files get other locations if two have the same one, or
        if another file next to `out`, the future output, has it.  Raises ModelFileError if the other model came from
        memory, but its data are in files.
        """
        copy = self._with_payloads_of(other)
        taken: dict[str, Path | None] = {}
        for skeleton, model in ((self.skeleton, self.source), (copy, other)):
            if model.external_tensors:
                self._adopt_files(skeleton, model, taken, out)
        self._store = locations.Store(None if self.path is None else self.path.parent, self.files, self.held)
        return copy

    def without_data(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        """A new tensor as the skeleton may have it: large raw data are cut out, and shared by all copies.

        They are kept in memory.  Data that do not fit the shape stay inside the tensor, so that the checker sees them.
        """
        size = len(tensor.raw_data) if tensor.data_location != locations.EXTERNAL else 0
        if not LARGE <= size < _MAX_SHARED or not _has_size(tensor, size):
            return tensor
        alone = onnx.ModelProto()
        alone.graph.initializer.append(tensor)
        made: onnx.TensorProto = self._with_payloads_of(Model.open(alone)).graph.initializer[0]
        return made

    def _with_payloads_of(self, other: Model) -> onnx.ModelProto:
        """A copy of another model's skeleton whose marks belong to this model, which gets the payloads."""
        copy, first = onnx.ModelProto(), len(self._payloads)
        copy.CopyFrom(other.skeleton)
        self._payloads = [*self._payloads, *other._payloads]
        self._owners.update((id(payload), other.owner(payload)) for payload in other._payloads)
        if other._payloads:
            for tensor in marked(copy):
                entry = next(entry for entry in tensor.external_data if entry.key == PAYLOAD_KEY)
                entry.value = str(int(entry.value) + first)
        return copy

    def patch(self, out: Path | None = None, *, whole: bool = True) -> Patch:
        """The smallest edits that turn the source into this model; none if nothing was changed.

        out, whole: the future output, and whether data files are kept as they are; else only the used parts of them are
        kept.
        """
        from surgeon.file.minimal_patch import minimal_patch  # not at the top: rules write their patch directly

        skeleton, fresh = (
            (self.skeleton, None) if whole or out is None else repack_unused(self.source, self.skeleton, out)
        )
        if self.recasts:
            skeleton, fresh = repack_converted(self.source, skeleton, self.recast_of, out=out, fresh=fresh)
        patch = minimal_patch(self.source, skeleton, self, self.source.unsorted if self.sorts else ())
        patch.fresh, patch.files = fresh, self.files
        return patch

    def _adopt_files(
        self, skeleton: onnx.ModelProto, model: Model, taken: dict[str, Path | None], out: Path | None
    ) -> None:
        """Record the data files of a model, and give them other locations if those are taken."""
        if model.path is None and model is not self.source and not model.held:
            raise ModelFileError("The model came from memory, so its data files are unknown. Open it by its path.")
        named: dict[str, str] = {}
        for tensor in locations.tensors_of(skeleton):
            if tensor.data_location != locations.EXTERNAL or any(
                entry.key == PAYLOAD_KEY for entry in tensor.external_data
            ):
                continue
            location = locations.extent_of(tensor).location
            if location not in named:
                path = None if model.path is None else locations.resolve(model.path.parent, location)
                beside = None if out is None or path is None else out.parent
                held = model.held.get(location)
                named[location] = next(
                    name
                    for name in _names(location)
                    if _is_free(name, path, taken, beside) and self.held.get(name, held) is held
                )
                taken[os.path.normpath(named[location])] = path
                if held is not None:
                    self._held[named[location]] = held
                if path is not None and (model is not self.source or named[location] != location):
                    self.files[named[location]] = path
            entry = next(entry for entry in tensor.external_data if entry.key == "location")
            if entry.value != named[location]:
                entry.value = named[location]


def _has_size(tensor: onnx.TensorProto, size: int) -> bool:
    """Whether raw data of this many bytes fit the dtype and the shape of a tensor."""
    try:
        return raw_size(tensor) == size
    except ModelFileError:  # a dtype without raw form, or negative dims
        return False


def _names(location: str) -> Iterator[str]:
    """A location, and variants of it."""
    yield location
    path = PurePosixPath(location)
    yield from (str(path.with_name(f"{path.stem}_{number}{path.suffix}")) for number in count(2))


def _is_free(name: str, path: Path | None, taken: Mapping[str, Path | None], folder: Path | None) -> bool:
    """Whether a data file may have this location: no other file has it, in the model or in the target folder."""
    place = os.path.normpath(name)
    if place in taken and not _is_same(path, taken[place]):
        return False
    there = None if folder is None else folder / local(name)
    return there is None or not there.exists() or _is_same(path, there)


def _is_same(path: Path | None, other: Path | None) -> bool:
    """Whether two data files are one, or have equal contents."""
    if path is None or other is None or not path.is_file() or not other.is_file():
        return path == other
    return os.path.samefile(path, other) or same_content(path, other)
