"""The smallest byte-range edits that turn a file into a model derived from its skeleton.

Messages are compared field by field.  Equal records of a repeated field stay in place: those of a longest common
subsequence of the two lists.  Between them, records with the same name or position are compared field by field in turn;
the others are deleted or inserted as a whole.
"""

import struct
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as ProtoMessage

from surgeon.file.model import Address, Model
from surgeon.file.patch import Patch
from surgeon.file.protobuf.node_order import node_field
from surgeon.file.protobuf.payloads import PAYLOAD_KEY
from surgeon.file.protobuf.wire_format import is_repeated, write_varint
from surgeon.file.tensors.casting import CHANGE

_INITIALIZER = 5
_GRAPH: Address = ((7, 0),)
_KEYS = ("name", "key", "domain", "tensor_name")  # fields that identify records of a list, in this order
_PACKED = {
    FieldDescriptor.TYPE_FLOAT: "<f",
    FieldDescriptor.TYPE_DOUBLE: "<d",
    FieldDescriptor.TYPE_FIXED32: "<I",
    FieldDescriptor.TYPE_FIXED64: "<Q",
    FieldDescriptor.TYPE_SFIXED32: "<i",
    FieldDescriptor.TYPE_SFIXED64: "<q",
}
Pair = tuple[int, int]


def minimal_patch(
    model: Model, edited: onnx.ModelProto, holder: Model | None = None, sort: Collection[Address] = ()
) -> Patch:
    """The edits that turn the file of `model` into `edited`, which was derived from a copy of its skeleton.

    Tensors of the skeleton keep their marks.  A large new tensor of the main graph may go to a data file when the model
    is saved.  holder: the model that can read all tensors of `edited`, if some are from other models.  sort: addresses
    of graphs whose nodes are written again, in the order of `edited`.  Other nodes keep their order in the file.
    """
    patch = Patch(model, holder)
    _Differences(model, patch, sort).compare((), model.skeleton, edited)
    return patch


class _Differences:
    """One comparison, recorded in a patch."""

    def __init__(self, model: Model, patch: Patch, sort: Collection[Address]) -> None:
        self._model, self._patch = model, patch
        self._sorted = {(where, node_field(where)) for where in sort}  # fields with nodes that are written again
        # Messages and fields around them, which differ in the file even if they are equal here.
        self._around = {where[:end] for where in sort for end in range(len(where) + 1)}
        self._fields = {(where[:end], where[end][0]) for where in sort for end in range(len(where))} | self._sorted

    def compare(self, where: Address, old: ProtoMessage, new: ProtoMessage) -> None:
        """Edit the message at an address so that it equals another of its type."""
        self._delete_replaced(where, old, new)
        for field in old.DESCRIPTOR.fields:
            before, after = getattr(old, field.name), getattr(new, field.name)
            if is_repeated(field):
                if field.message_type is not None:
                    # NaN makes equal lists differ, which costs only time.
                    if before != after or (where, field.number) in self._fields:
                        self._compare_rows(where, field.number, before, after)
                else:
                    self._compare_scalars(where, field, before, after)
            elif field.message_type is None:
                is_held = old.HasField(field.name), new.HasField(field.name)
                self._compare_scalars(where, field, [before] * is_held[0], [after] * is_held[1])
            else:
                self._compare_one(where, field, old, new)

    def _delete_replaced(self, where: Address, old: ProtoMessage, new: ProtoMessage) -> None:
        """Delete members of a oneof that a later member replaces in the file: they would be back without that one."""
        for group in old.DESCRIPTOR.oneofs:
            if old.WhichOneof(group.name) == new.WhichOneof(group.name):
                continue
            for field in group.fields:
                is_written = field.message_type is None and new.HasField(field.name)
                if not is_written and not old.HasField(field.name):
                    self._patch.delete_all(where, field.number, range(self._model.count(where, field.number)))

    def _compare_one(self, where: Address, field: FieldDescriptor, old: ProtoMessage, new: ProtoMessage) -> None:
        number, count = field.number, self._model.count(where, field.number)
        before, after = getattr(old, field.name), getattr(new, field.name)
        if old.HasField(field.name) and new.HasField(field.name):
            if _is_another(before, after):
                self._patch.delete_all(where, number, range(count))
                self._patch.insert(where, number, count, [self._patch.holder.serialize_pieces(after)])
            elif before != after or (*where, (number, 0)) in self._around:
                self.compare((*where, (number, 0)), before, after)
        elif new.HasField(field.name):
            self._patch.insert(where, number, count, [self._patch.holder.serialize_pieces(after)])
        elif old.HasField(field.name):
            self._patch.delete_all(where, number, range(count))

    def _compare_scalars(self, where: Address, field: FieldDescriptor, old: Sequence[Any], new: Sequence[Any]) -> None:
        """Numbers, strings and bytes: a list of numbers is replaced as a whole, one of strings in parts."""
        if not old and not new:
            return
        before, after = [_encoded(field, value) for value in old], [_encoded(field, value) for value in new]
        if before == after:
            return
        number, count = field.number, self._model.count(where, field.number)
        if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES) and is_repeated(field):
            kept = common_pairs(before, after)
            for at, gone, come in ranges_between(kept, len(before), len(after)):
                for place, row in zip(gone, come, strict=False):
                    self._patch.replace(where, number, place, [after[row]])
                self._patch.delete_all(where, number, gone[len(come) :])
                if come[len(gone) :]:
                    self._patch.insert(where, number, at + len(gone), [after[row] for row in come[len(gone) :]])
            return
        packed = is_repeated(field) and field.type not in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
        bodies = ([b"".join(after)] if after else []) if packed else after
        self._patch.delete_all(where, number, range(max(count - 1, 0)))
        if count:
            self._patch.replace(where, number, count - 1, bodies)
        elif bodies:
            self._patch.insert(where, number, 0, bodies)

    def _compare_rows(
        self, where: Address, number: int, old: Sequence[ProtoMessage], new: Sequence[ProtoMessage]
    ) -> None:
        """A list of messages."""
        if (where, number) in self._sorted:
            self._patch.delete_all(where, number, range(len(old)))
            self._insert(where, number, len(old), new)
            return
        kept = common_pairs(*([message.SerializeToString() for message in messages] for messages in (old, new)))
        gone: list[int] = []
        for place, row in kept:
            if (*where, (number, place)) in self._around:
                self.compare((*where, (number, place)), old[place], new[row])
        for at, before, after in ranges_between(kept, len(old), len(new)):
            pairs = [(a, b) for a, b in _paired(old, new, before, after) if not _is_another(old[a], new[b])]
            for place, row in pairs:
                self.compare((*where, (number, place)), old[place], new[row])
            for here, left, come in ranges_between(
                [(a - at, b - after.start) for a, b in pairs], len(before), len(after)
            ):
                gone += [at + place for place in left]
                self._insert(where, number, at + here, [new[after.start + row] for row in come])
        self._patch.delete_all(where, number, gone)

    def _insert(self, where: Address, number: int, place: int, messages: Sequence[ProtoMessage]) -> None:
        """Insert new messages before the record at a position."""
        if not messages:
            return
        if where == _GRAPH and number == _INITIALIZER:
            tensors = [item for item in messages if isinstance(item, onnx.TensorProto)]
            self._patch.insert_tensors(where, number, place, tensors)
        else:
            self._patch.insert(
                where, number, place, [self._patch.holder.serialize_pieces(message) for message in messages]
            )


def _encoded(field: FieldDescriptor, value: Any) -> bytes:
    """The body of a record of one number, string or bytes."""
    if field.type == FieldDescriptor.TYPE_STRING:
        return value.encode() if isinstance(value, str) else bytes(value)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes(value)
    form = _PACKED.get(field.type)
    return struct.pack(form, value) if form is not None else write_varint(int(value) & (1 << 64) - 1)


def common_pairs(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair]:
    """Positions of equal items in both lists, ascending in both: the maximum number, if no item is repeated.

    Of repeated items, the first in one list corresponds to the first in the other.  The longest ascending subsequence
    is found by patience sorting (Fredman, 1975).
    """
    places: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for place, item in enumerate(old):
        places[item].append(place)
    pairs = [(places[item].popleft(), row) for row, item in enumerate(new) if places.get(item)]
    lasts: list[int] = []  # by length, the smallest end position of a subsequence
    chains: list[int] = []  # by length, the last pair of that subsequence
    before: list[int] = []
    for number, (place, _) in enumerate(pairs):
        length = bisect_left(lasts, place)
        before.append(chains[length - 1] if length else -1)
        if length == len(lasts):
            lasts.append(place)
            chains.append(number)
        else:
            lasts[length], chains[length] = place, number
    found: list[Pair] = []
    number = chains[-1] if chains else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def ranges_between(kept: Sequence[Pair], old: int, new: int) -> Iterator[tuple[int, range, range]]:
    """The ranges between kept pairs: position in the old list, deleted positions, inserted positions of the new list.
    """
    place = row = 0
    for next_place, next_row in (*kept, (old, new)):
        if next_place > place or next_row > row:
            yield place, range(place, next_place), range(row, next_row)
        place, row = next_place + 1, next_row + 1


def _paired(old: Sequence[ProtoMessage], new: Sequence[ProtoMessage], before: range, after: range) -> list[Pair]:
    """Corresponding records of two runs: those with equal keys; the others in order, if their number is equal."""
    keys = [[_key(messages[place]) for place in run] for messages, run in ((old, before), (new, after))]
    named = common_pairs(*keys)
    pairs: list[Pair] = []
    for at, left, come in ranges_between(named, len(before), len(after)):
        if len(left) == len(come):
            pairs += zip(range(at, at + len(left)), come, strict=True)
    return [(before.start + place, after.start + row) for place, row in sorted({*named, *pairs})]


def _key(message: ProtoMessage) -> Hashable:
    """The key of a record in a list."""
    if isinstance(message, onnx.NodeProto):
        return message.op_type, *message.output
    if isinstance(message, onnx.TensorProto):
        return _mark(message) or message.name
    return next((getattr(message, name) for name in _KEYS if name in message.DESCRIPTOR.fields_by_name), "")


def is_changing(message: ProtoMessage) -> bool:
    """Whether it is a tensor whose data are converted to another dtype when they are written."""
    return isinstance(message, onnx.TensorProto) and any(entry.key == CHANGE for entry in message.external_data)


def _is_another(old: ProtoMessage, new: ProtoMessage) -> bool:
    """Whether a tensor has to be written as a whole: its data are converted, or are not those of the old tensor."""
    tensors = [item for item in (old, new) if isinstance(item, onnx.TensorProto)]
    return is_changing(new) or len({_mark(tensor) for tensor in tensors}) > 1


def _mark(tensor: onnx.TensorProto) -> str | None:
    """The mark of the payload that was cut out of a tensor; None if there is none."""
    return next((f"{PAYLOAD_KEY} {entry.value}" for entry in tensor.external_data if entry.key == PAYLOAD_KEY), None)
