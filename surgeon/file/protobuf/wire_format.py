"""The protobuf wire format: the byte positions of the records of a message, without parsing values.

A *record* is one tag with its value; its *body* is the part after tag and length.  A *message* is one or more spans of
bytes (*frames*): a singular message that is written twice counts as one message in two frames, as protobuf merges it,
and its repeated fields count across the frames.  A field of a wire type that the schema does not allow, an unknown
field and a group are skipped, as protobuf treats them as unknown.

The limits are those of protobuf's own parser: tags and lengths of at most five bytes, varints of at most ten, 100
levels of nesting.  See https://protobuf.dev/programming-guides/encoding/.
"""

from array import array
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache
from mmap import mmap
from typing import Protocol

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from onnx import ModelProto

Buffer = bytes | mmap
Append = Callable[[int], None]

VARINT, FIXED64, LEN, START_GROUP, END_GROUP, FIXED32 = range(6)
MAX_DEPTH = 100
MAX_SIZE = 2**31 - 1  # the maximum size of a protobuf message

_WIRE_TYPES = {
    FieldDescriptor.TYPE_DOUBLE: FIXED64,
    FieldDescriptor.TYPE_FIXED64: FIXED64,
    FieldDescriptor.TYPE_SFIXED64: FIXED64,
    FieldDescriptor.TYPE_FLOAT: FIXED32,
    FieldDescriptor.TYPE_FIXED32: FIXED32,
    FieldDescriptor.TYPE_SFIXED32: FIXED32,
    FieldDescriptor.TYPE_STRING: LEN,
    FieldDescriptor.TYPE_BYTES: LEN,
    FieldDescriptor.TYPE_MESSAGE: LEN,
    FieldDescriptor.TYPE_GROUP: START_GROUP,
}


class WireError(ValueError):
    """The bytes violate the wire format at `position` (a byte offset)."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(f"{why} at byte {position}")
        self.position = position


def read_varint(data: Buffer, at: int, most: int = 10) -> tuple[int, int]:
    """Decode the varint at `at`, of at most `most` bytes: (value, position after it)."""
    value = shift = 0
    for position in range(at, min(at + most, len(data))):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise WireError(at, "a varint without an end")


def write_varint(value: int) -> bytes:
    """The shortest varint of a number >= 0."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_tag(data: Buffer, at: int) -> tuple[int, int]:
    """Decode the tag (field number << 3 | wire type) at `at`: (tag, position after it)."""
    tag, position = read_varint(data, at, 5)
    if not 8 <= tag <= 0xFFFFFFFF:
        raise WireError(at, "a tag without a valid field number")
    return tag, position


class _HasDescriptor(Protocol):
    DESCRIPTOR: Descriptor


class MessageSchema:
    """The wire-level schema of one message type: its tags and the messages that it contains.

    name     of the message type, such as `GraphProto`
    tags     tag -> field number, for every tag that protobuf accepts for the field (packed and not)
    form     field number -> the tag of new records of this field
    types    field number -> descriptor of the message that it contains
    single   numbers of the fields with one message, which merges if it is given twice
    toward_tensors   field number -> the tag of records through which a TensorProto can be reached
    """

    __slots__ = ("form", "name", "single", "tags", "toward_tensors", "types")

    def __init__(self, descriptor: Descriptor) -> None:
        self.name: str = descriptor.name
        self.tags: dict[int, int] = {}
        self.form: dict[int, int] = {}
        self.types: dict[int, Descriptor] = {}
        self.single: set[int] = set()
        names = _toward_tensors()
        for field in descriptor.fields:
            number, wire_type = field.number, _WIRE_TYPES.get(field.type, VARINT)
            repeated = is_repeated(field)
            self.tags[number << 3 | wire_type] = number
            if repeated and wire_type in (VARINT, FIXED32, FIXED64):
                wire_type = LEN
                self.tags[number << 3 | LEN] = number
            self.form[number] = number << 3 | wire_type
            if field.message_type is not None:
                self.types[number] = field.message_type
                if not repeated:
                    self.single.add(number)
        self.toward_tensors = {
            number: self.form[number] for number, inner in self.types.items() if inner.name in names
        }

    def child(self, field: int) -> "MessageSchema":
        """Schema of the message in `field`; KeyError if it has none."""
        return schema_of(self.types[field])


@cache
def schema_of(descriptor: Descriptor) -> MessageSchema:
    """The schema of a message type, built once."""
    return MessageSchema(descriptor)


def is_repeated(field: FieldDescriptor) -> bool:
    """Whether a field is repeated."""
    new = getattr(field, "is_repeated", None)  # protobuf >= 6.31; `label` is deprecated
    return bool(new) if new is not None else field.label == FieldDescriptor.LABEL_REPEATED


@cache
def _toward_tensors() -> frozenset[str]:
    """Names of the ONNX message types that are, or can contain, a TensorProto."""
    found = {"TensorProto"}
    types = ModelProto.DESCRIPTOR.file.message_types_by_name
    before = 0
    while len(found) != before:
        before = len(found)
        for name, descriptor in types.items():
            if any(f.message_type is not None and f.message_type.name in found for f in descriptor.fields):
                found.add(name)
    return frozenset(found)


class MessageSpan:
    """One span of a message's body.  `[length_at, start)` is the varint of its length (none at the root)."""

    __slots__ = ("depth", "end", "length_at", "parent", "start")

    def __init__(self, parent: "MessageSpan | None", length_at: int, start: int, end: int) -> None:
        self.parent = parent
        self.length_at = length_at
        self.start = start
        self.end = end
        self.depth: int = 0 if parent is None else parent.depth + 1


class Records:
    """The records of one field, in file order at first: `[starts[i], ends[i])`, from the tag to the end of the body."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts = array("q")
        self.ends = array("q")

    def __len__(self) -> int:
        return len(self.starts)


_NONE = Records()


class Message:
    """A message in the bytes: its frames, and the positions of its records, which are scanned on first use."""

    __slots__ = ("_children", "_records", "data", "frames", "schema")

    def __init__(self, data: Buffer, schema: MessageSchema, frames: Sequence[MessageSpan]) -> None:
        self.data = data
        self.schema = schema
        self.frames = frames
        self._records: dict[int, Records] | None = None
        self._children: dict[tuple[int, int], Message] | None = None  # created when needed: most messages are leaves

    def records(self, field: int) -> Records:
        """The records of a field number; raises WireError if the message violates the wire format."""
        if self._records is None:
            self._records = scan(self.data, self.frames, self.schema)
        return self._records.get(field, _NONE)

    def renumber(self, field: int, order: Sequence[int]) -> None:
        """Count the records of a field in another order.  order: their present numbers."""
        old = self.records(field)
        new = Records()
        new.starts, new.ends = (array("q", [ends[number] for number in order]) for ends in (old.starts, old.ends))
        known, new_numbers = self._children or {}, {number: place for place, number in enumerate(order)}
        self._children = {(at, new_numbers[k] if at == field else k): child for (at, k), child in known.items()}
        if self._records is not None:
            self._records[field] = new

    def frame_at(self, position: int) -> MessageSpan:
        """The frame that contains the record starting at `position`."""
        if len(self.frames) == 1:
            return self.frames[0]
        return next(frame for frame in self.frames if frame.start <= position < frame.end)

    def bytes(self) -> bytes:
        """The whole message, its frames joined, as protobuf merges them."""
        return b"".join(self.data[frame.start : frame.end] for frame in self.frames)

    def body(self, field: int, index: int) -> tuple[int, int, int]:
        """(start of the length, start of the body, end) of a record; without a length the first two are equal."""
        records = self.records(field)
        if not 0 <= index < len(records):
            raise IndexError(f"{self.schema.name} has {len(records)} records of field {field}, asked for {index}")
        first = records.starts[index]
        at = _behind_varint(self.data, first)
        start = _behind_varint(self.data, at) if self.data[first] & 7 == LEN else at
        return at, start, records.ends[index]

    def child(self, field: int, index: int) -> "Message":
        """The message number `index` in `field`; a singular message has number 0 and all its records as frames."""
        children = self._children
        if children is None:
            children = self._children = {}
        found = children.get((field, index))
        if found is None:
            if field not in self.schema.single:
                frames = [self._frame(field, index)]
            elif index:
                raise IndexError(f"field {field} of {self.schema.name} is one message, asked for number {index}")
            else:
                frames = [self._frame(field, number) for number in range(max(1, len(self.records(field))))]
            found = children[field, index] = Message(self.data, self.schema.child(field), frames)
        return found

    def _frame(self, field: int, index: int) -> MessageSpan:
        length_at, start, end = self.body(field, index)
        frame = MessageSpan(self.frame_at(length_at), length_at, start, end)
        if frame.depth > MAX_DEPTH:
            raise WireError(start, f"messages nested more than {MAX_DEPTH} deep")
        return frame


def _behind_varint(data: Buffer, at: int) -> int:
    """The position after a varint of a record that the scan found, which checked its length."""
    while data[at] > 0x7F:
        at += 1
    return at + 1


def parse_root(data: Buffer, kind: type[_HasDescriptor] = ModelProto) -> Message:
    """The message that `data` contains as a whole."""
    return Message(data, schema_of(kind.DESCRIPTOR), [MessageSpan(None, 0, 0, len(data))])


def begins_as_model(data: Buffer) -> bool:
    """Whether the first record may belong to a ModelProto; the rest is not read."""
    try:
        tag, at = read_tag(data, 0)
    except WireError:
        return False
    known = schema_of(ModelProto.DESCRIPTOR)
    if tag not in known.tags:
        return False
    try:
        number, at = read_varint(data, at)
    except WireError:
        return len(data) < 12  # truncated inside it
    if tag & 7 == VARINT:
        return number <= MAX_SIZE  # a version
    text = data[at : at + min(number, 64)]
    return known.tags[tag] in known.types or not any(byte < 0x09 or byte == 0x7F for byte in text)


def scan(data: Buffer, frames: Sequence[MessageSpan], schema: MessageSchema) -> dict[int, Records]:
    """The positions of the records of each known field, in file order across the frames.

    A graph of 120,000 nodes takes 140,000 iterations of this loop: tags of one byte and lengths of one or two are
    decoded in place.
    """
    found: dict[int, Records] = {}
    slots: dict[int, tuple[Append, Append]] = {}
    get, number_of = slots.get, schema.tags.get
    for frame in frames:
        at, end = frame.start, frame.end
        while at < end:
            start = at
            tag = data[at]
            at += 1
            if tag & 7 != LEN or not 8 < tag < 0x80:
                tag, at = read_tag(data, start)
                if tag & 7 != LEN:
                    at = _skip(data, tag, at, end)
            if tag & 7 == LEN:
                if at >= end:
                    raise WireError(start, "a record that is cut off")
                length = data[at]
                at += 1
                if length > 0x7F:
                    if at >= end:
                        raise WireError(start, "a record that is cut off")
                    high = data[at]
                    at += 1
                    length += (high << 7) - 0x80
                    if high > 0x7F:
                        length, at = read_varint(data, at - 2, 5)
                at += length
            slot = get(tag)
            if slot is None:
                number = number_of(tag)
                if number is None:
                    continue  # unknown to ONNX
                records = found.setdefault(number, Records())
                slot = slots[tag] = (records.starts.append, records.ends.append)
            add_start, add_end = slot
            add_start(start)
            add_end(at)
            is_short = tag & 7 == LEN and tag < 0x80
            while is_short and at + 2 < end and data[at] == tag:  # the next record mostly has the same tag
                start, length, body = at, data[at + 1], at + 2
                if length > 0x7F:
                    high = data[body]
                    if high > 0x7F:
                        break
                    length, body = length + (high << 7) - 0x80, body + 1
                add_start(start)
                at = body + length
                add_end(at)
        if at != end:
            raise WireError(start, "a record that runs past the end of its message")
    return found


def may_contain(data: Buffer, record: tuple[int, int], tags: Container[int], least: int) -> bool:
    """Whether the message in a record may have more than `least` bytes in records with these tags.

    Quicker than a scan.  True for a message with anything but length-delimited records of small tags and lengths.
    """
    at, end = record
    total = 0
    for _ in ("tag", "length"):  # of the record itself
        while data[at] > 0x7F:
            at += 1
        at += 1
    while at + 2 < end:
        tag, length = data[at], data[at + 1]
        at += 2
        if tag & 7 != LEN or tag > 0x7F:
            return True
        if length > 0x7F:
            length += (data[at] << 7) - 0x80
            if data[at] > 0x7F:
                return True
            at += 1
        at += length
        if tag in tags:
            total += length
    return at != end or total > least


def walk(data: Buffer, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The records in `[at, end)` one by one, unknown ones too: (tag, start, start of the body, end)."""
    while at < end:
        start = at
        tag, at = read_tag(data, at) if data[at] > 0x7F else (data[at], at + 1)
        is_short = at < end and data[at] < 0x80  # a varint of one byte
        body = at
        if tag & 7 == LEN and tag > 8:
            length, body = (data[at], at + 1) if is_short else read_varint(data, at, 5)
            at = body + length
        elif tag & 7 == VARINT and tag > 7 and is_short:
            at += 1
        else:
            at = _skip(data, read_tag(data, start)[0], at, end)
        if at > end:
            raise WireError(start, "a record that runs past the end of its message")
        yield tag, start, body, at


def _skip(data: Buffer, tag: int, at: int, end: int) -> int:
    """The position after the value at `at` of a record that is not length-delimited; groups are skipped as a whole."""
    open_groups: list[int] = []
    while True:
        if at > end:
            raise WireError(at, "a record that runs past the end of its message")
        kind = tag & 7
        if kind == VARINT:
            at = read_varint(data, at)[1]
        elif kind == FIXED64:
            at += 8
        elif kind == FIXED32:
            at += 4
        elif kind == LEN:
            length, at = read_varint(data, at, 5)
            at += length
        elif kind == START_GROUP:
            open_groups.append(tag >> 3)
            if len(open_groups) > MAX_DEPTH:
                raise WireError(at, f"groups nested more than {MAX_DEPTH} deep")
        elif kind != END_GROUP or not open_groups or open_groups.pop() != tag >> 3:
            raise WireError(at, "an end of a group that was not begun" if kind == END_GROUP else "a bad wire type")
        if not open_groups:
            return at
        if at >= end:
            raise WireError(at, "a group without an end")
        tag, at = read_tag(data, at)
