"""A model in its file: a skeleton to read, values on demand, and byte-range edits.

`Model.open` leaves every large tensor payload in the file.  The *skeleton* is the model without these payloads: instead
it has an `external_data` entry with the key `surgeon.payload`, which `Model.value` follows.
"""

import mmap
import os
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, TracebackType

import onnx
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message import Message as ProtoMessage

from surgeon.errors import ModelFileError
from surgeon.file.external_data import locations
from surgeon.file.external_data.held_tensors import LOCATION, HeldModel, HeldTensors
from surgeon.file.external_data.on_demand import fetch
from surgeon.file.io.file_type import describe, not_utf8
from surgeon.file.io.memory_map import close_map, forget_pages, holds_word, map_whole, span_of, stamp
from surgeon.file.protobuf.byte_edits import ByteEdits, join
from surgeon.file.protobuf.node_order import Orders, node_field, sort_nodes
from surgeon.file.protobuf.payloads import (
    MARK,
    PAYLOAD_KEY,
    Body,
    Payload,
    cut,
    find_payloads,
    marked,
    restore,
    with_payloads,
)
from surgeon.file.protobuf.wire_format import Buffer, Message, WireError, begins_as_model, parse_root
from surgeon.file.tensors.casting import DataChange
from surgeon.file.tensors.decoding import Array, decode_raw, decode_tensor, densify

Address = tuple[tuple[int, int], ...]
"""The address of a message below ModelProto: steps of (field number, occurrence).

The main graph is ((7, 0),), function k is ((25, k),), and ((7, 0), (1, 12), (5, 3), (6, 0)) is the body
graph.node[12].attribute[3].g.  A singular message has occurrence 0, even when the file gives it in two records.  Nodes
are counted in the order of the skeleton, which is topological.
"""

_MAIN_GRAPH = 7


class Model:
    """An open model.  The nodes of its skeleton are in topological order, even if those of the file are not.

    skeleton        the model without the payloads above the threshold; read-only, edits go through a Patch
    path            the file, or None if the model was given as a ModelProto or as bytes
    payload_bytes   bytes of tensor data that were cut out
    """

    skeleton: onnx.ModelProto
    path: Path | None
    payload_bytes: int
    held: Mapping[str, HeldTensors]
    """By location, tensors that stay with other objects."""

    def __init__(
        self, data: Buffer, path: Path | None, threshold: int, held: Mapping[str, HeldTensors] = MappingProxyType({})
    ) -> None:
        self.path, self.held = path, held
        self._data: Buffer | None = data
        self.stamp = None if path is None else stamp(path)
        whole = parse_root(data)
        self._messages: dict[Address, Message] = {(): whole}
        self._store = locations.Store(None if path is None else path.parent, held=held)
        name = "The model" if path is None else str(path)
        try:
            self._payloads = find_payloads(whole, threshold)
            if not whole.records(_MAIN_GRAPH):
                raise ModelFileError(describe(data[:4096], name) or f"{name} has no graph, so it is not an ONNX model.")
            self.skeleton = self._parse()
            self._orders: Orders = sort_nodes(self.skeleton)
        except (WireError, DecodeError) as error:
            known = describe(data[:4096], name)
            if known is None and not begins_as_model(data):
                known = f"{name} is not an ONNX model ({error})."
            known = known or f"{name} is truncated or damaged ({error}). Export or download it again."
            raise ModelFileError(known) from None
        forget_pages(data)
        self.payload_bytes = sum(payload.size for payload in self._payloads)

    @classmethod
    def open(
        cls, source: str | os.PathLike[str] | onnx.ModelProto | HeldModel | bytes, *, threshold: int = 1024
    ) -> "Model":
        """Open a model file, a ModelProto or its bytes; tensor data of more than `threshold` bytes stay in the file.

        A ModelProto is serialised, so later changes to it have no effect.  Raises ModelFileError if the file cannot be
        read or is not an ONNX model.
        """
        held = {LOCATION: source.tensors} if isinstance(source, HeldModel) else {}
        source = source.proto if isinstance(source, HeldModel) else source
        if isinstance(source, onnx.ModelProto):
            if not source.HasField("graph"):
                raise ModelFileError("The ModelProto has no graph.")
            try:
                return cls(source.SerializeToString(), None, threshold, held)
            except (ValueError, EncodeError):
                raise ModelFileError("The ModelProto has 2 GiB or more. Keep its weights in external data.") from None
        if isinstance(source, bytes | bytearray | memoryview):
            if not source:
                raise ModelFileError("The model is empty: it has no bytes.")
            return cls(bytes(source), None, threshold)
        path = Path(os.path.abspath(source))  # the working directory may change before the save
        return cls(map_whole(path), path, threshold)

    @property
    def data(self) -> Buffer:
        """The bytes of the file; after `close` it is mapped again."""
        if self._data is None:
            self.check_unchanged()
            self._data = map_whole(self.path) if self.path is not None else b""
        return self._data

    def runnable(self) -> "onnx.ModelProto | Path":
        """The model for a runtime: its file, or a ModelProto.  Held tensors are written to a temporary file first."""
        return self.path if self.path is not None else self.made_from(self.data[:])

    def made_from(self, data: bytes) -> "onnx.ModelProto | Path":
        """A model from memory after edits, for a runtime; as `runnable`."""
        if not self.held:
            made: onnx.ModelProto = onnx.ModelProto.FromString(data)
            return made
        return next(iter(self.held.values())).write_model(data, self.held)

    @property
    def is_sorted(self) -> bool:
        """Whether the nodes of the file are in topological order."""
        return not self._orders

    @property
    def unsorted(self) -> Collection[Address]:
        """The addresses of the graphs and functions whose nodes are in another order in the file."""
        return self._orders.keys()

    def value(self, tensor: onnx.TensorProto) -> Array:
        """The value of a tensor of the skeleton, wherever its data are: inline, cut out, or in an external file.

        The array has the tensor's shape and dtype (see `surgeon.file.tensors.decoding`) and may be a read-only view of
        the file, which stays open as long as the array exists.  Raises ModelFileError if the data are missing, too
        short, changed on disk or do not match their checksum.
        """
        if tensor.data_location != locations.EXTERNAL:
            return decode_tensor(tensor)
        payload = self._payload(tensor)
        if payload is None:
            return self._store.value(tensor)
        self.check_unchanged()
        if payload.raw is not None:
            fetch(self.owner(payload).path, *payload.raw)
            return decode_raw(tensor, *span_of(self.owner(payload).data, *payload.raw))
        full = self._rebuild(payload)
        return self._store.value(full) if full.data_location == locations.EXTERNAL else decode_tensor(full)

    def has_value(self, tensor: onnx.TensorProto) -> bool:
        """Whether the model has the data of a tensor; always true for a file."""
        return True

    def span(self, tensor: onnx.TensorProto) -> tuple[int, int] | None:
        """The range `[start, end)` of a cut-out tensor's raw bytes in `data`; None for other tensors."""
        payload = self._payload(tensor)
        return None if payload is None else payload.raw

    def extent(self, tensor: onnx.TensorProto) -> locations.Extent | None:
        """The range of a tensor in an external file; None for other tensors.  No file is read."""
        found = self._external(tensor)
        return None if found is None else locations.extent_of(found)

    def sparse_value(self, tensor: onnx.SparseTensorProto) -> Array:
        """The dense array of a sparse tensor; its indices may be linear `[nnz]` or coordinates `[nnz, rank]`."""
        name = tensor.values.name
        return densify(self.value(tensor.values), self.value(tensor.indices), tuple(tensor.dims), name)

    def serialize(self, message: ProtoMessage) -> bytes:
        """Serialise a message of the skeleton, or an edited copy of one, with the cut-out data put back."""
        copy = type(message)()
        copy.CopyFrom(message)
        for tensor in marked(copy):
            payload = self._payload(tensor)
            if payload is not None:
                restore(tensor, self._rebuild(payload))
        data: bytes = copy.SerializeToString()
        return data

    def serialize_pieces(self, message: ProtoMessage) -> Body:
        """The same in pieces: cut-out data are spans of their file."""
        return with_payloads(
            message,
            self._payload,
            lambda payload: (self.owner(payload).data, self.owner(payload).path),
            self.recast_of,
        )

    def recast_of(self, tensor: onnx.TensorProto) -> DataChange | None:
        """The conversion of a tensor's data when they are written: always None."""
        return None

    def owner(self, payload: Payload) -> "Model":
        """The model whose file contains a payload: this one."""
        return self

    def message(self, where: Address) -> Message:
        """The message at an address; IndexError or KeyError if the file has none there."""
        found = self._messages.get(where)
        if found is None:
            try:
                found = self.message(where[:-1]).child(*where[-1]) if where else parse_root(self.data)
            except WireError as error:
                raise ModelFileError(f"{self.path or 'The model'} is damaged ({error}). Export it again.") from None
            self._messages[where] = found
            if where in self._orders:
                found.renumber(node_field(where), self._orders[where])
        return found

    def count(self, where: Address, field: int) -> int:
        """The number of records of a field in the message at `where`, in the file."""
        return len(self.message(where).records(field))

    def record(self, where: Address, field: int, index: int) -> bytes:
        """The body of a record as in the file, payloads included; IndexError if there is none."""
        _, start, end = self.message(where).body(field, index)
        fetch(self.path, start, end)
        return self.data[start:end]

    @cached_property
    def external_tensors(self) -> list[onnx.TensorProto]:
        """The tensors of the skeleton whose data are in external files."""
        return self.find_external()

    def find_external(self) -> list[onnx.TensorProto]:
        """The same, without a cache."""
        if not self.contains_word(b"location"):
            return []
        tensors = locations.tensors_of(self.skeleton)
        return [found for tensor in tensors if (found := self._external(tensor)) is not None]

    @cached_property
    def external_bytes(self) -> int:
        """The total size of the tensors in external files; shared bytes count once.  No file is read."""
        return sum(extent.size for extent in {locations.extent_of(tensor) for tensor in self.external_tensors})

    def check_unchanged(self) -> None:
        """Raise ModelFileError if the file on disk was changed since it was opened."""
        if self.path is not None and stamp(self.path) != self.stamp:
            raise ModelFileError(f"{self.path} was changed on disk since it was opened. Open it again.")

    def check_data(self, *, sums: bool = False) -> None:
        """Raise ModelFileError if an external data file is missing or too short, or a tensor exceeds it.

        No data are read.  sums: verify checksums too, which reads the tensors that have one.
        """
        if self.path is not None:
            locations.files(self.path.parent, self.external_tensors)
            if sums:
                locations.verify_checksums(self.path.parent, self.external_tensors)
        for held in self.held.values():
            held.check()

    def check_names(self) -> None:
        """Raise ModelFileError if a string is not UTF-8.  Slow: call it only after an error."""
        found = not_utf8(self.skeleton)
        if found is not None:
            raise ModelFileError(
                f"{self.path or 'The model'} has a name that is not UTF-8 ({found!r}). Export it again."
            )

    def whole(self) -> onnx.ModelProto:
        """The model with all its data inline, external ones too.  Raises ModelFileError as `value` does."""
        fetch(self.path)
        proto: onnx.ModelProto = onnx.ModelProto.FromString(self.data[:])
        if self.external_tensors:
            self._store.fill(proto)
        return proto

    def close(self) -> None:
        """Close the files.  Arrays stay valid; later queries open the files again."""
        self._store.close()
        if isinstance(self._data, mmap.mmap):
            data, self._data = self._data, None
            self._messages.clear()  # they refer to the map
            close_map(data)

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _parse(self) -> onnx.ModelProto:
        """The skeleton: the bytes with every payload replaced by its mark, parsed once."""
        edits = ByteEdits(len(self.data))
        for number, payload in enumerate(self._payloads):
            cut(payload, number, edits)
        data = join(self.data, edits.pieces()) if edits else self.data[:]
        if data.count(MARK) != len(self._payloads):
            raise ModelFileError(
                f"{self.path or 'The model'} contains {PAYLOAD_KEY!r}, which surgeon reserves: "
                "it is a skeleton, not a model. Use the original file."
            )
        skeleton: onnx.ModelProto = onnx.ModelProto.FromString(data)
        return skeleton

    def _payload(self, tensor: onnx.TensorProto) -> Payload | None:
        for entry in tensor.external_data:
            if entry.key == PAYLOAD_KEY:
                if entry.value.isdecimal() and int(entry.value) < len(self._payloads):
                    return self._payloads[int(entry.value)]
                raise ModelFileError(f"Tensor {tensor.name!r} belongs to the skeleton of another model.")
        return None

    def _rebuild(self, payload: Payload) -> onnx.TensorProto:
        """The tensor of a payload as in the file."""
        try:
            data = self.owner(payload).data  # not `payload.tensor.data`, which may be a closed map
            for frame in payload.tensor.frames:
                fetch(self.owner(payload).path, frame.start, frame.end)
            body = b"".join(data[frame.start : frame.end] for frame in payload.tensor.frames)
            full: onnx.TensorProto = onnx.TensorProto.FromString(body)
        except DecodeError:
            raise ModelFileError(
                f"{self.path or 'The model'} is damaged inside the tensor at byte {payload.tensor.frames[0].start}. "
                "Export or download it again."
            ) from None
        return full

    def _external(self, tensor: onnx.TensorProto) -> onnx.TensorProto | None:
        """`tensor` without its mark, if its data are in an external file."""
        if tensor.data_location != locations.EXTERNAL:
            return None
        payload = self._payload(tensor)
        if payload is None:
            return tensor
        return self._rebuild(payload) if payload.is_external else None

    def contains_word(self, word: bytes) -> bool:
        """Whether the word occurs outside of the payloads."""
        if self._payloads:
            return word in self.skeleton.SerializeToString()
        return holds_word(self.data, word)


class InMemoryModel(Model):
    """A ModelProto as it is, neither copied nor serialised.  The data of large tensors may have been cut out of it."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.skeleton, self.path, self.payload_bytes, self.stamp = proto, None, 0, None
        self._data, self._messages, self._payloads, self._orders = None, {}, [], {}
        self._store, self.held = locations.Store(None), {}

    def has_value(self, tensor: onnx.TensorProto) -> bool:
        """Whether the data of a tensor are in the message."""
        return bool(tensor.data_location != locations.EXTERNAL)
