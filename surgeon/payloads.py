"""Tensor payloads in the bytes of a model: finding them, cutting them out, putting them back.

A tensor whose data were cut out bears a mark: an `external_data` entry with the key `surgeon.payload` and the number of
the payload, and the data location EXTERNAL, so that nobody takes it for an empty tensor.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from google.protobuf.message import Message as ProtoMessage

from surgeon.edits import Edits
from surgeon.wire import Message, read_varint, write_varint

KEY = "surgeon.payload"
MARK = b"\x0a\x0f" + KEY.encode()  # the key as it lies in a StringStringEntryProto

# fields of TensorProto
RAW = 9
DATA_FIELDS = (4, 5, 6, 7, RAW, 10, 11)  # float, int32, string, int64, raw, double, uint64 data
EXTERNAL_DATA = 13
LOCATION = 14


@dataclass(frozen=True)
class Payload:
    """The data of one tensor.

    tensor   the message that holds them, all its frames
    raw      the span `[start, end)` of the data when they are one `raw_data` record and nothing else
    size     bytes that they take
    """

    tensor: Message
    raw: tuple[int, int] | None
    size: int


def tensors_in(message: Message, least: int) -> Iterator[Message]:
    """The TensorProto messages below (or at) `message` in records of more than `least` bytes.

    Smaller records are not entered: a graph of small nodes costs one comparison per node.
    """
    if message.schema.name == "TensorProto":
        yield message
        return
    for field in message.schema.leads:
        records = message.records(field)
        if field in message.schema.single:
            if records and sum(records.ends) - sum(records.starts) > least:
                yield from tensors_in(message.child(field, 0), least)
        else:
            spans = zip(records.starts, records.ends, strict=True)
            for index in [i for i, (start, end) in enumerate(spans) if end - start > least]:
                yield from tensors_in(message.child(field, index), least)


def find_payloads(message: Message, threshold: int) -> Iterator[Payload]:
    """The tensors below `message` with more than `threshold` bytes of data."""
    for tensor in tensors_in(message, threshold):
        used = [field for field in DATA_FIELDS if tensor.records(field)]
        raw = None
        if used == [RAW] and len(tensor.records(RAW)) == 1:
            _, start, end = tensor.body(RAW, 0)
            raw = (start, end)
            size = end - start
        else:
            size = sum(sum(tensor.records(field).ends) - sum(tensor.records(field).starts) for field in used)
        if size > threshold:
            yield Payload(tensor, None if _may_be_external(tensor) else raw, size)


def cut(payload: Payload, number: int, edits: Edits) -> None:
    """Cut the data of a tensor and put the mark `number` at its end, where no later record undoes it."""
    tensor = payload.tensor
    for field in DATA_FIELDS:
        records = tensor.records(field)
        for start, end in _joined(zip(records.starts, records.ends, strict=True)):
            edits.cut(tensor.frame_at(start), start, end)
    value = str(number).encode()
    entry = MARK + b"\x12" + write_varint(len(value)) + value
    last = tensor.frames[-1]
    edits.insert(last, last.end, b"\x6a" + write_varint(len(entry)) + entry + b"\x70\x01")
    tensor.forget()


def marked(message: ProtoMessage) -> Iterator[onnx.TensorProto]:
    """The tensors below (or at) a message of any type that bear a mark."""
    if isinstance(message, onnx.TensorProto):
        if any(entry.key == KEY for entry in message.external_data):
            yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if isinstance(value, ProtoMessage) else value:
                yield from marked(inner)


def restore(tensor: onnx.TensorProto, source: onnx.TensorProto) -> None:
    """Give a marked tensor the data of `source` and take the mark away."""
    for field in DATA_FIELDS:
        name = onnx.TensorProto.DESCRIPTOR.fields_by_number[field].name
        if field != RAW:
            getattr(tensor, name).extend(getattr(source, name))
        elif source.HasField(name):
            tensor.raw_data = source.raw_data
    kept = [entry for entry in tensor.external_data if entry.key != KEY]
    del tensor.external_data[:]
    tensor.external_data.extend(kept)
    if source.HasField("data_location"):
        tensor.data_location = source.data_location
    else:
        tensor.ClearField("data_location")


def _may_be_external(tensor: Message) -> bool:
    """Whether a record of the tensor says that its data lie elsewhere, inline data or not."""
    for index in range(len(tensor.records(LOCATION))):
        if read_varint(tensor.data, tensor.body(LOCATION, index)[1])[0]:
            return True
    return False


def _joined(spans: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans in ascending order with neighbours joined."""
    first, last = next(spans, (0, 0))
    for start, end in spans:
        if start != last:
            yield first, last
            first = start
        last = end
    if last:
        yield first, last
