"""Edits to the records of a skeleton, by the calls that a `Patch` takes for the records of a file."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from google.protobuf.message import Message as ProtoMessage

from surgeon.file.model import Address


class SkeletonEdits:
    """Edits to the messages of a skeleton: delete, replace, insert.  Indices are those before all edits.

    Bodies are those of `Patch`, except that tensors keep their marks.
    """

    def __init__(
        self, skeleton: onnx.ModelProto, stored: Callable[[onnx.TensorProto], onnx.TensorProto] | None = None
    ) -> None:
        """stored: returns a new tensor as it is inserted."""
        self._skeleton, self._stored = skeleton, stored
        self._rows: dict[tuple[Address, int], dict[int, Sequence[Any]]] = {}  # replacements, by message and field
        self._inserted: dict[tuple[Address, int], dict[int, list[Any]]] = {}  # by the index before which they go

    def replace(self, where: Address, field: int, index: int, bodies: Sequence[bytes]) -> None:
        """Replace record `index` of `field` in the message at `where` by these records."""
        self.replace_all(where, field, {index: bodies})

    def replace_all(self, where: Address, field: int, bodies: Mapping[int, Sequence[bytes]]) -> None:
        """Replace many records, by index."""
        self._rows.setdefault((where, field), {}).update(bodies)

    def delete_all(self, where: Address, field: int, indices: Sequence[int]) -> None:
        """Delete many records."""
        if indices:
            self._rows.setdefault((where, field), {}).update(dict.fromkeys(indices, ()))

    def insert(self, where: Address, field: int, index: int, bodies: Sequence[bytes]) -> None:
        """Insert these records before record `index`."""
        self._inserted.setdefault((where, field), {}).setdefault(index, []).extend(bodies)

    def insert_tensors(self, where: Address, field: int, index: int, tensors: Sequence[onnx.TensorProto]) -> None:
        """Insert these tensors before record `index`."""
        self._inserted.setdefault((where, field), {}).setdefault(index, []).extend(
            tensors if self._stored is None else map(self._stored, tensors)
        )

    def apply(self) -> None:
        """Make all edits, those of inner messages first."""
        places = dict.fromkeys([*self._rows, *self._inserted])
        for where, field in sorted(places, key=lambda place: -len(place[0])):
            message = message_at(self._skeleton, where)
            described = message.DESCRIPTOR.fields_by_number[field]
            kind = None if described.message_type is None else described.message_type._concrete_class
            records = getattr(message, described.name)
            replaced, inserted = self._rows.get((where, field), {}), self._inserted.get((where, field), {})
            made: list[Any] = []
            for index, record in enumerate(records):
                made += inserted.get(index, ())
                made += replaced.get(index, (record,))
            made += inserted.get(len(records), ())
            made = [_parsed(item, kind) if isinstance(item, bytes) else item for item in made]
            del records[:]
            records.extend(made)


def message_at(skeleton: onnx.ModelProto, where: Address) -> Any:
    """The message at an address of a skeleton."""
    message: Any = skeleton
    for number, index in where:
        inner = getattr(message, message.DESCRIPTOR.fields_by_number[number].name)
        message = inner if isinstance(inner, ProtoMessage) else inner[index]
    return message


def _parsed(body: bytes, kind: Any) -> Any:
    """The record of a body: a message of a kind, or a string."""
    return body.decode() if kind is None else kind.FromString(body)
