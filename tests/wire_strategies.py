"""Hypothesis generators of wire data: ONNX messages with every liberty that the format allows.

Fields in any order and several times, padded varints, singular messages split over records, packed and unpacked chunks
mixed, unknown fields, groups, known field numbers with a wire type that makes them unknown.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

from surgeon.file.tensors.decoding import _FIELD_TYPES, _TYPES

Draw = Callable[[st.SearchStrategy[Any]], Any]

_FIXED = {FieldDescriptor.TYPE_DOUBLE: 1, FieldDescriptor.TYPE_FLOAT: 5}
_LEN = {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE}
_UNKNOWN = (19, 600, 5000, 2**29 - 1)

# what can lead to a tensor is drawn more often than the rest
_HOT = {
    "ModelProto": ["graph", "training_info", "functions"],
    "TrainingInfoProto": ["initialization", "algorithm"],
    "GraphProto": ["node", "initializer", "sparse_initializer"],
    "FunctionProto": ["node", "attribute_proto"],
    "NodeProto": ["attribute", "input", "output"],
    "AttributeProto": ["t", "g", "tensors", "graphs", "sparse_tensor"],
    "SparseTensorProto": ["values", "indices"],
}


def varint(value: int, padding: int = 0) -> bytes:
    """The varint of `value`, made longer than need be by `padding` bytes."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    for _ in range(padding):
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def record(number: int, wire_type: int, body: bytes, tag_padding: int = 0, length_padding: int = 0) -> bytes:
    """One record; a length is added for wire type 2."""
    length = varint(len(body), length_padding) if wire_type == 2 else b""
    return varint(number << 3 | wire_type, tag_padding) + length + body


def _padding(draw: Draw) -> int:
    return draw(st.sampled_from([0, 0, 0, 0, 1, 2]))


def _record(draw: Draw, number: int, wire_type: int, body: bytes) -> bytes:
    room = 5 - len(varint(number << 3))  # protobuf takes no tag of more than five bytes
    return record(number, wire_type, body, min(_padding(draw), room), _padding(draw))


def _scalar(draw: Draw, wire_type: int) -> bytes:
    if wire_type == 0:
        value = draw(st.integers(0, 300) | st.integers(0, 2**64 - 1))
        return varint(value, min(_padding(draw), 10 - len(varint(value))))
    return draw(st.binary(min_size=8, max_size=8) if wire_type == 1 else st.binary(min_size=4, max_size=4))


@st.composite
def unknowns(draw: Draw, number: int | None = None, depth: int = 2) -> bytes:
    """A record that ONNX does not know; with a number given, of that number."""
    if number is None:
        number = draw(st.sampled_from(_UNKNOWN))
    wire_type = draw(st.sampled_from([0, 1, 2, 3, 5] if depth else [0, 1, 2, 5]))
    return _value(draw, number, wire_type, depth)


def _value(draw: Draw, number: int, wire_type: int, depth: int) -> bytes:
    if wire_type == 2:
        return _record(draw, number, 2, draw(st.binary(max_size=6)))
    if wire_type == 3:
        inner = draw(st.lists(st.integers(1, 30).flatmap(lambda n: unknowns(n, depth - 1)), max_size=2))
        return _record(draw, number, 3, b"".join(inner)) + varint(number << 3 | 4)
    return _record(draw, number, wire_type, _scalar(draw, wire_type))


def _chunks(draw: Draw, records: list[bytes]) -> list[bytes]:
    """The records of one message as the bodies of one or two records."""
    if draw(st.integers(0, 3)) or len(records) < 2:
        return [b"".join(records)]
    middle = draw(st.integers(0, len(records)))
    return [b"".join(records[:middle]), b"".join(records[middle:])]


def _field(draw: Draw, field: FieldDescriptor, depth: int) -> list[bytes]:
    """One or more records of a known field."""
    repeated = field.is_repeated
    if field.message_type is not None:
        inner = draw(records_of(field.message_type, depth - 1))
        bodies = [b"".join(inner)] if repeated else _chunks(draw, inner)
        return [_record(draw, field.number, 2, body) for body in bodies]
    if field.type in _LEN:
        body = draw(st.binary(max_size=5)) if field.type == field.TYPE_BYTES else draw(st.text(max_size=3)).encode()
        return [_record(draw, field.number, 2, body)]
    wire_type = _FIXED.get(field.type, 0)
    if repeated and draw(st.booleans()):
        values = [_scalar(draw, wire_type) for _ in range(draw(st.integers(0, 4)))]
        return [_record(draw, field.number, 2, b"".join(values))]
    return [_record(draw, field.number, wire_type, _scalar(draw, wire_type))]


@st.composite
def records_of(draw: Draw, descriptor: Descriptor, depth: int = 5) -> list[bytes]:
    """The records of a message of this type, in the order in which they stand."""
    if descriptor.name == "TensorProto" and draw(st.booleans()):
        return draw(tensors())
    fields = [f for f in descriptor.fields if f.message_type is None or depth > 0]
    if not fields:
        return []
    hot = [f for f in fields if f.name in _HOT.get(descriptor.name, ())] or fields
    out: list[bytes] = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.integers(0, 9))
        if kind == 0:
            out.append(draw(unknowns()))
        elif kind == 1:
            field = draw(st.sampled_from(fields))
            taken = {2, _FIXED.get(field.type, 0)} if field.is_repeated and field.type not in _LEN else set()
            taken |= {2} if field.type in _LEN else {_FIXED.get(field.type, 0)}
            wire_type = draw(st.sampled_from([w for w in (0, 1, 2, 3, 5) if w not in taken]))
            out.append(_value(draw, field.number, wire_type, 1))
        else:
            out += _field(draw, draw(st.sampled_from(hot if kind > 4 else fields)), depth)
    return out


@st.composite
def tensors(draw: Draw) -> list[bytes]:
    """The records of a TensorProto whose data fill its shape: any dtype, raw or typed, in one or more chunks."""
    known = set(onnx.TensorProto.DataType.values())  # an older onnx lacks some
    code = draw(st.sampled_from(sorted(known.intersection([*_TYPES, 8]))))
    dims = draw(st.lists(st.integers(0, 4), max_size=3))
    count = int(np.prod(dims, dtype=np.int64))
    out = [_record(draw, 2, 0, varint(code)), _record(draw, 8, 2, draw(st.text(max_size=2)).encode())]
    out += [_record(draw, 1, 0, varint(n)) for n in dims]
    if code == 8:
        data = [_record(draw, 6, 2, draw(st.text(max_size=3)).encode()) for _ in range(count)]
    elif draw(st.booleans()):
        size = (count * _TYPES[code][1] + 7) // 8
        data = [_record(draw, 9, 2, draw(st.binary(min_size=size, max_size=size)))]
    else:
        data = _typed(draw, code, count)
    if draw(st.booleans()):
        out.append(draw(unknowns()))
    middle = draw(st.integers(0, len(out)))
    return out[:middle] + data + out[middle:]


def _typed(draw: Draw, code: int, count: int) -> list[bytes]:
    dtype, bits, name = _TYPES[code]
    if dtype.kind == "c":
        count *= 2
    elif bits in (2, 4):
        count = (count * bits + 7) // 8
    field = onnx.TensorProto.DESCRIPTOR.fields_by_name[name]
    wire_type = _FIXED.get(field.type, 0)
    limit = 2 if code == 9 else 1 << min(bits, 31) if name == "int32_data" else 1 << min(bits, 64)
    width = np.dtype(_FIELD_TYPES[name]).itemsize
    out: list[bytes] = []
    while count:
        take = draw(st.integers(1, count))
        if wire_type:
            values = [draw(st.binary(min_size=width, max_size=width)) for _ in range(take)]
        else:
            values = [varint(draw(st.integers(0, limit - 1))) for _ in range(take)]
        if draw(st.booleans()):
            out.append(_record(draw, field.number, 2, b"".join(values)))
        else:
            out += [_record(draw, field.number, wire_type, value) for value in values]
        count -= take
    return out


@st.composite
def models(draw: Draw) -> bytes:
    """The bytes of a ModelProto that has at least one record of its graph."""
    records = draw(records_of(onnx.ModelProto.DESCRIPTOR, 6))
    graph = _chunks(draw, draw(records_of(onnx.GraphProto.DESCRIPTOR, 5)))
    records += [_record(draw, 7, 2, body) for body in graph]
    return b"".join(draw(st.permutations(records)))


def tokens(data: bytes) -> list[tuple[int, int, bytes, bytes]]:
    """The records of a message, read naively: (field number, wire type, body, the record as a whole)."""
    out: list[tuple[int, int, bytes, bytes]] = []
    at = 0
    while at < len(data):
        start = at
        tag, at = _read(data, at)
        at, body = _skip_value(data, at, tag)
        out.append((tag >> 3, tag & 7, body, data[start:at]))
    return out


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def _skip_value(data: bytes, at: int, tag: int) -> tuple[int, bytes]:
    wire_type, start = tag & 7, at
    if wire_type == 0:
        at = _read(data, at)[1]
    elif wire_type == 2:
        length, start = _read(data, at)
        at = start + length
    elif wire_type == 3:
        while True:
            inner, at = _read(data, at)
            if inner == (tag | 7) - 3:
                break
            at = _skip_value(data, at, inner)[0]
    else:
        at += 8 if wire_type == 1 else 4
    return at, data[start:at]
