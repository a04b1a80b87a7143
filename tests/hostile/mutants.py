"""Mutants: one to three faults in a model, in what it says or in the bytes that say it."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor

from tests.hostile.subjects import subjects

NUMBERS = (0, 1, -1, 2, 3, 7, 19, 28, 64, 99, 1 << 15, -(1 << 15), (1 << 31) - 1, 1 << 31, -(1 << 31))
NUMBERS += (1 << 32, 10**12, (1 << 62), (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", " ", "x", "y", "a", "ai.onnx", "com.microsoft", "my", "Relu", "Erf", "If", "Constant", "axis", "to")
TEXTS += (
    "\n",
    "a\tb",
    "\x1b[2J",
    "\u202egnp.exe",
    "ä" * 300,
    "w" * 100_000,
    "%s{}",
    "../../etc/passwd",
    "-r",
    "?0[]",
    "~",
)
BYTES = (b"", b"\0", b"\xff\xfe", b"\0" * 4096, b"\xff" * 4)
_WHOLE = {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64}
_WHOLE |= {FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64}
_LIMITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}

Fault = Callable[[random.Random, Any, FieldDescriptor], None]


def mutant(seed: int) -> tuple[str, bytes]:
    """The mutant of a seed: what was done, and the file."""
    chance = random.Random(seed)
    known = subjects()
    name = chance.choice(list(known))
    model, reported = known[name], [name]
    in_bytes = chance.random() < 0.25
    for _ in range(chance.choice((1, 1, 1, 2, 3)) if not in_bytes else 0):
        reported.append(_spoil(chance, model))
    data = model.SerializeToString()
    for _ in range(chance.choice((1, 1, 2, 8)) if in_bytes else 0):
        how, data = _cut(chance, data)
        reported.append(how)
    return ", ".join(reported), data


def _spoil(chance: random.Random, model: onnx.ModelProto) -> str:
    """One fault in a field of a message that the model has, or lacks."""
    message = chance.choice(list(_messages(model)))
    fields = list(message.DESCRIPTOR.fields)
    held = [field for field, _ in message.ListFields()]
    field = chance.choice(held if held and chance.random() < 0.7 else fields)
    faults = _OF_LISTS if field.is_repeated else _OF_ONE
    fault = chance.choice(faults)
    fault(chance, message, field)
    return f"{fault.__name__.strip('_')} {message.DESCRIPTOR.name}.{field.name}"


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if field.is_repeated else [value]:
                yield from _messages(item)


def _value(chance: random.Random, field: FieldDescriptor) -> Any:
    if field.enum_type is not None:  # protobuf takes no others; bytes that say others are flipped ones
        return chance.choice(field.enum_type.values).number
    if field.cpp_type in _WHOLE:
        least, most = _LIMITS[field.cpp_type]
        return chance.choice([number for number in NUMBERS if least <= number <= most])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return chance.choice((*BYTES, *(text.encode() for text in TEXTS)))
    if field.type == FieldDescriptor.TYPE_STRING:
        return chance.choice(TEXTS)
    return chance.choice(FLOATS)


def _clear(_: random.Random, message: Any, field: FieldDescriptor) -> None:
    message.ClearField(field.name)


def _set(chance: random.Random, message: Any, field: FieldDescriptor) -> None:
    if field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _value(chance, field))


def _remove(chance: random.Random, message: Any, field: FieldDescriptor) -> None:
    items = getattr(message, field.name)
    if items:
        del items[chance.randrange(len(items))]


def _repeat(chance: random.Random, message: Any, field: FieldDescriptor) -> None:
    items = getattr(message, field.name)
    if items:
        for _ in range(chance.choice((1, 1, 1, 70))):
            items.append(items[chance.randrange(len(items))])


def _swap(chance: random.Random, message: Any, field: FieldDescriptor) -> None:
    items = list(getattr(message, field.name))
    chance.shuffle(items)
    message.ClearField(field.name)
    getattr(message, field.name).extend(items)


def _replace(chance: random.Random, message: Any, field: FieldDescriptor) -> None:
    items = getattr(message, field.name)
    if field.message_type is not None:
        items.add()
    elif items:
        items[chance.randrange(len(items))] = _value(chance, field)
    else:
        items.append(_value(chance, field))


def _borrow(chance: random.Random, message: Any, field: FieldDescriptor) -> None:
    """Name what something else in the list is called."""
    items = getattr(message, field.name)
    if field.message_type is None and len(items) > 1:
        items[chance.randrange(len(items))] = items[chance.randrange(len(items))]
    elif field.message_type is not None and len(items) > 1:
        one, other = chance.choice(items), chance.choice(items)
        for name in ("name", "op_type", "input", "output", "key"):
            if name in field.message_type.fields_by_name and chance.random() < 0.5:
                _copy(one, other, name)


def _copy(one: Any, other: Any, name: str) -> None:
    value = getattr(other, name)
    if one.DESCRIPTOR.fields_by_name[name].is_repeated:
        value = list(value)
        one.ClearField(name)
        getattr(one, name).extend(value)
    else:
        setattr(one, name, value)


_OF_ONE: tuple[Fault, ...] = (_clear, _set, _set, _set)
_OF_LISTS: tuple[Fault, ...] = (_clear, _remove, _repeat, _swap, _replace, _replace, _borrow)


def _cut(chance: random.Random, data: bytes) -> tuple[str, bytes]:
    """One fault in the bytes."""
    at = chance.randrange(len(data)) if data else 0
    end = min(len(data), at + chance.choice((1, 1, 2, 8, 64)))
    how = chance.choice(("flip", "flip", "flip", "cut off", "leave out", "double", "noise", "bad text"))
    noise = bytes(chance.randrange(256) for _ in range(end - at))
    match how:
        case "flip":
            return f"flip at {at}", data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))] if data else []) + data[
                at + 1 :
            ]
        case "cut off":
            return f"cut off at {at}", data[:at]
        case "leave out":
            return f"leave out {at}:{end}", data[:at] + data[end:]
        case "double":
            return f"double {at}:{end}", data[:end] + data[at:end] + data[end:]
        case "bad text":
            letters = [place for place, byte in enumerate(data) if chr(byte).isalpha()]
            at = chance.choice(letters or [0])
            return f"no UTF-8 at {at}", data[:at] + b"\xff" + data[at + 1 :]
    return f"noise at {at}:{end}", data[:at] + noise + data[end:]
