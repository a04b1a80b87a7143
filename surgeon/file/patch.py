"""Edits to the records of a model, as byte ranges; everything else stays unchanged, byte for byte."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from surgeon.file.external_data.new_file import NewDataFile
from surgeon.file.model import Address, Model
from surgeon.file.protobuf.byte_edits import ByteEdits, FileSpan, Piece, join
from surgeon.file.protobuf.payloads import MARK, Body, size_of
from surgeon.file.protobuf.wire_format import LEN, MAX_SIZE, Message, write_varint


class Patch:
    """Edits to the records of a model: delete, replace, insert.  Indices are those of the opened file.

    A body is the part of a record after tag and length: a serialised message, the bytes of a string, the encoded
    number.  To write a message of the skeleton use `Model.serialize`, `Model.serialize_pieces` or `Model.record`, which
    put its data back.

    fresh: the new data file that some of the edits refer to, if any.  files: by location, data files of other models.
    """

    def __init__(self, model: Model, holder: Model | None = None) -> None:
        """holder: the model that can read all inserted tensors, if some are from other models."""
        self._model, self.holder = model, holder or model
        self.fresh: NewDataFile | None = None
        self.files: Mapping[str, Path] = {}
        self._edits = ByteEdits(len(model.data))
        self._tensors: list[tuple[Address, int, int, Sequence[onnx.TensorProto]]] = []

    @property
    def empty(self) -> bool:
        """Whether it has no edits."""
        return not self._edits and not self._tensors

    def delete(self, where: Address, field: int, index: int) -> None:
        """Delete record `index` of `field` in the message at `where`; IndexError if there is none."""
        self.replace(where, field, index, ())

    def replace(self, where: Address, field: int, index: int, bodies: Sequence[bytes]) -> None:
        """Replace record `index` by these records; tags and lengths are added."""
        message = self._model.message(where)
        records = message.records(field)
        if not 0 <= index < len(records):
            raise IndexError(f"{message.schema.name} has {len(records)} records of field {field}, asked for {index}")
        start = records.starts[index]
        self._edits.cut(message.frame_at(start), start, records.ends[index], _records(message, field, bodies))

    def replace_all(self, where: Address, field: int, bodies: Mapping[int, Sequence[bytes]]) -> None:
        """Replace many records, by index.  As `replace`."""
        message = self._model.message(where)
        records = message.records(field)
        starts, ends = records.starts, records.ends
        for index, these in bodies.items():
            start = starts[index]
            self._edits.cut(message.frame_at(start), start, ends[index], _records(message, field, these))

    def delete_all(self, where: Address, field: int, indices: Sequence[int]) -> None:
        """Delete many records, in ascending order; neighbours in the file become one edit.  As `delete`."""
        message = self._model.message(where)
        records = message.records(field)
        place, count = 0, len(indices)
        while place < count:
            first = last = indices[place]
            frame = message.frame_at(records.starts[first])
            place += 1
            while place < count and records.starts[indices[place]] == records.ends[last] < frame.end:
                last = indices[place]
                place += 1
            self._edits.cut(frame, records.starts[first], records.ends[last])

    def insert(self, where: Address, field: int, index: int, bodies: Sequence[bytes | Body]) -> None:
        """Insert these records before record `index`; `index` = count means after the last one.

        If the message has no record of the field, they go to the message's end.  Calls for one position keep their
        order.  IndexError if index > count.
        """
        self._insert(self._edits, where, field, index=index, bodies=bodies)

    def insert_tensors(self, where: Address, field: int, index: int, tensors: Sequence[onnx.TensorProto]) -> None:
        """As `insert`, for tensors of the main graph; those with much raw data may go to a data file."""
        self._insert(ByteEdits(0), where, field, index=index, bodies=())  # raises IndexError now
        self._tensors.append((where, field, index, tensors))

    def _insert(self, edits: ByteEdits, where: Address, field: int, index: int, bodies: Sequence[bytes | Body]) -> None:
        message = self._model.message(where)
        records = message.records(field)
        if not 0 <= index <= len(records):
            raise IndexError(f"{message.schema.name} has {len(records)} records of field {field}, asked for {index}")
        if index < len(records):
            at = records.starts[index]
            frame = message.frame_at(at)
        elif index:
            at = records.ends[index - 1]
            frame = message.frame_at(records.starts[index - 1])
        else:
            frame = message.frames[-1]
            at = frame.end
        for piece in _pieces(message, field, bodies):
            edits.insert(frame, at, piece)

    def pieces(self, data: NewDataFile | None = None) -> list[Piece]:
        """The edited model in order: spans of the source, and new bytes.

        data: the file for large new tensors; None writes them into the model.  Raises RewriteError if two edits
        overlap, ModelFileError if the result would reach 2 GiB.
        """
        edits = self._edits.copy() if self._tensors else self._edits
        for where, field, index, tensors in self._tensors:
            body = self.holder.serialize_pieces
            made = [body(tensor) if data is None else data.body(tensor, body) for tensor in tensors]
            self._insert(edits, where, field, index=index, bodies=made)
        return edits.pieces()

    @property
    def is_too_large(self) -> bool:
        """Whether the result would reach 2 GiB with all new tensors inline."""
        new = sum(size_of(self.holder.serialize_pieces(tensor)) for *_, tensors in self._tensors for tensor in tensors)
        return new > 0 and self._edits.result_size + new > MAX_SIZE

    def apply(self) -> bytes:
        """The edited model as bytes.  Errors as for `pieces`."""
        return join(self._model.data, self.pieces())

    def to_proto(self) -> onnx.ModelProto:
        """The edited model as a ModelProto, all inline data loaded.  Errors as for `pieces`."""
        proto: onnx.ModelProto = onnx.ModelProto.FromString(self.apply())
        return proto


def _records(message: Message, field: int, bodies: Sequence[bytes]) -> bytes:
    return b"".join(piece for piece in _pieces(message, field, bodies) if isinstance(piece, bytes))


def _pieces(message: Message, field: int, bodies: Sequence[bytes | Body]) -> Body:
    """Records with their tags and lengths, adjacent new bytes joined."""
    form = message.schema.form[field]
    tag = write_varint(form)
    out: list[bytes | FileSpan] = []
    waiting: list[bytes] = []
    for body in bodies:
        pieces = (body,) if isinstance(body, bytes) else body
        waiting += (tag, write_varint(size_of(pieces))) if form & 7 == LEN else (tag,)
        for piece in pieces:
            if isinstance(piece, FileSpan):
                out += (b"".join(waiting), piece)
                waiting = []
            elif MARK in piece:
                raise ValueError("the bytes of a skeleton must not be written: use Model.full or Model.record")
            else:
                waiting.append(piece)
    return (*out, b"".join(waiting)) if waiting else tuple(out)
