"""Tensor payloads in the bytes of a model: finding them, cutting them out, putting them back.

A tensor whose data were cut out has a mark: an `external_data` entry with the key `surgeon.payload` and the number of
the payload, and the data location EXTERNAL, so that it does not look empty.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import onnx
from google.protobuf.message import Message as ProtoMessage

from surgeon.file.protobuf.byte_edits import ByteEdits, FileSpan
from surgeon.file.protobuf.wire_format import (
    LEN,
    VARINT,
    Buffer,
    Message,
    MessageSpan,
    may_contain,
    parse_root,
    read_varint,
    schema_of,
    walk,
    write_varint,
)
from surgeon.file.tensors.casting import CHANGE, DataChange
from surgeon.file.tensors.decoding import STRING, decode_tensor, encode

Body: TypeAlias = tuple[bytes | FileSpan, ...]
"""A serialised message in pieces, some of which lie in files."""
PAYLOAD_KEY = "surgeon.payload"
MARK = b"\x0a\x0f" + PAYLOAD_KEY.encode()  # the key as encoded in a StringStringEntryProto
_CHANGE_MARK = bytes((0x0A, len(CHANGE))) + CHANGE.encode()

_MAPPED = 1 << 12  # bytes up to which data are taken from the map

# fields of TensorProto
RAW = 9
DATA_FIELDS = (4, 5, 6, 7, RAW, 10, 11)  # float, int32, string, int64, raw, double, uint64 data
EXTERNAL_DATA = 13
LOCATION = 14

_DATA_TAGS = {tag for tag, field in schema_of(onnx.TensorProto.DESCRIPTOR).tags.items() if field in DATA_FIELDS}
_RAW_TAG = schema_of(onnx.TensorProto.DESCRIPTOR).form[RAW]
_LOCATION_TAG = LOCATION << 3 | VARINT


class Payload(NamedTuple):
    """The data of one tensor."""

    tensor: Message
    """Message that contains them."""
    spans: list[tuple[MessageSpan, int, int]]
    """(frame, start, end) of the data; adjacent records are joined."""
    raw: tuple[int, int] | None
    """`[start, end)` of the bytes if they are a single `raw_data` record; else None."""
    size: int
    """Number of bytes."""
    is_external: bool = False
    """Whether the tensor refers to an external file."""


def tensors_in(message: Message, least: int) -> list[Message]:
    """The TensorProto messages below (or at) `message` in records of more than `least` bytes.

    Smaller records are not entered: a graph of small nodes costs one comparison per node.
    """
    found: list[Message] = []
    _add_tensors(message, least, found)
    return found


def _add_tensors(message: Message, least: int, found: list[Message]) -> None:
    if message.schema.name == "TensorProto":
        found.append(message)
        return
    for field in message.schema.toward_tensors:
        records = message.records(field)
        if field in message.schema.single:
            if records and sum(records.ends) - sum(records.starts) > least:
                _add_tensors(message.child(field, 0), least, found)
            continue
        tags = message.schema.child(field).toward_tensors.values()
        for index in np.flatnonzero(np.subtract(records.ends, records.starts) > least).tolist():
            record = records.starts[index], records.ends[index]
            if not tags or may_contain(message.data, record, tags, least):  # most long nodes have long metadata
                _add_tensors(message.child(field, index), least, found)


def find_payloads(message: Message, threshold: int) -> list[Payload]:
    """The tensors below `message` with more than `threshold` bytes of data."""
    payloads = [_payload(tensor) for tensor in tensors_in(message, threshold)]
    return [payload for payload in payloads if payload.size > threshold]


def _payload(tensor: Message) -> Payload:
    spans: list[tuple[MessageSpan, int, int]] = []
    raw: tuple[int, int] | None = None
    size = count = 0
    external = False
    for frame in tensor.frames:
        before = -1
        for tag, start, body, end in walk(tensor.data, frame.start, frame.end):
            if tag in _DATA_TAGS:
                count += 1
                size += end - body
                if tag == _RAW_TAG:
                    raw = (body, end)
                if start == before:
                    spans[-1] = (frame, spans[-1][1], end)
                else:
                    spans.append((frame, start, end))
                before = end
            elif tag == _LOCATION_TAG and read_varint(tensor.data, body)[0]:
                external = True  # inline data are ignored then
    return Payload(tensor, spans, None if external or count > 1 else raw, size=size, is_external=external)


def raw_span(message: Message, path: Path | None, least: int) -> bytes | FileSpan | None:
    """The inline data of a TensorProto in raw form; None if they have fewer than `least` bytes, or are strings.

    path: the file of the model, which has raw data already; None for a model in memory.
    """
    raw = _payload(message).raw
    if raw is not None and path is not None:
        return FileSpan(path, raw[0], raw[1] - raw[0]) if raw[1] - raw[0] >= least else None
    tensor = onnx.TensorProto.FromString(message.bytes())
    if tensor.data_type == STRING:
        return None
    data = tensor.raw_data or encode(decode_tensor(tensor)).raw_data
    return data if len(data) >= least else None


def cut(payload: Payload, number: int, edits: ByteEdits) -> None:
    """Cut the data of a tensor and append the mark `number`, so that no later record overrides it."""
    for frame, start, end in payload.spans:
        edits.cut(frame, start, end)
    value = str(number).encode()
    entry = MARK + b"\x12" + write_varint(len(value)) + value
    last = payload.tensor.frames[-1]
    edits.insert(last, last.end, b"\x6a" + write_varint(len(entry)) + entry + b"\x70\x01")


def marked(message: ProtoMessage) -> Iterator[onnx.TensorProto]:
    """The tensors below (or at) a message of any type that have a mark."""
    if isinstance(message, onnx.TensorProto):
        if any(entry.key == PAYLOAD_KEY for entry in message.external_data):
            yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if isinstance(value, ProtoMessage) else value:
                yield from marked(inner)


def restore(tensor: onnx.TensorProto, source: onnx.TensorProto) -> None:
    """Give a marked tensor the data of `source` and remove the mark."""
    for field in DATA_FIELDS:
        name = onnx.TensorProto.DESCRIPTOR.fields_by_number[field].name
        if field != RAW:
            getattr(tensor, name).extend(getattr(source, name))
        elif source.HasField(name):
            tensor.raw_data = source.raw_data
    kept = [entry for entry in tensor.external_data if entry.key != PAYLOAD_KEY]
    del tensor.external_data[:]
    tensor.external_data.extend(kept)
    if source.HasField("data_location"):
        tensor.data_location = source.data_location
    else:
        tensor.ClearField("data_location")


def with_payloads(
    message: ProtoMessage,
    payload_of: Callable[[onnx.TensorProto], Payload | None],
    home_of: Callable[[Payload], tuple[Buffer, Path | None]],
    recast_of: Callable[[onnx.TensorProto], DataChange | None],
) -> Body:
    """A message serialised with the data of its marked tensors, which are copied from file to file.

    home_of: the bytes that contain a payload, and their file; None for bytes in memory.  recast_of: the conversion of a
    tensor's data; None if they are unchanged.
    """
    data: bytes = message.SerializeToString()
    if MARK not in data:
        return (data,)
    edits = ByteEdits(len(data))
    for tensor in tensors_in(parse_root(data, type(message)), -1):
        entries = [tensor.child(EXTERNAL_DATA, place).bytes() for place in range(len(tensor.records(EXTERNAL_DATA)))]
        marks = [place for place, entry in enumerate(entries) if entry.startswith((MARK, _CHANGE_MARK))]
        own = onnx.TensorProto.FromString(tensor.bytes()) if marks else onnx.TensorProto()
        payload = payload_of(own) if marks else None
        if payload is None:
            continue
        change = recast_of(own)
        for number, places in ((EXTERNAL_DATA, marks), (LOCATION, range(len(tensor.records(LOCATION))))):
            records = tensor.records(number)
            for place in places:
                edits.cut(tensor.frame_at(records.starts[place]), records.starts[place], records.ends[place])
        last, (home, path) = tensor.frames[-1], home_of(payload)
        if change is not None:
            for part in _recast(payload, home, path, change):
                edits.insert(last, last.end, part)
            continue
        for _, start, end in payload.spans:
            new = FileSpan(path, start, end - start) if path is not None and end - start > _MAPPED else home[start:end]
            edits.insert(last, last.end, new)
        if payload.is_external:
            edits.insert(last, last.end, bytes((LOCATION << 3 | VARINT, onnx.TensorProto.EXTERNAL)))
    return tuple(data[piece[0] : piece[1]] if isinstance(piece, tuple) else piece for piece in edits.pieces())


def _recast(payload: Payload, home: Buffer, path: Path | None, change: DataChange) -> Body:
    """The record of a tensor's data in another dtype: as a span for raw data in a file, else converted now."""
    if payload.raw is not None and path is not None:
        start, end = payload.raw
        size = change.changed_size(end - start)
        return (_raw_header(size), FileSpan(path, start, size, change))
    if payload.raw is not None:
        data = change.data(bytes(home[payload.raw[0] : payload.raw[1]]))
    else:
        frames = b"".join(home[frame.start : frame.end] for frame in payload.tensor.frames)
        data = change.array(decode_tensor(onnx.TensorProto.FromString(frames))).tobytes()
    return (_raw_header(len(data)) + data,)


def _raw_header(size: int) -> bytes:
    return bytes((RAW << 3 | LEN,)) + write_varint(size)


def size_of(pieces: Body) -> int:
    """The total size of pieces, in bytes."""
    return sum([len(piece) if isinstance(piece, bytes) else piece.size for piece in pieces])
