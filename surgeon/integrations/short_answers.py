"""Answers of at most `LIMIT` bytes: parts of a JSON value, each with a note that says how to ask for the rest."""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice, takewhile
from typing import Any

from surgeon.errors import UsageError

LIMIT = 4096
"""The most bytes of an answer: an assistant keeps each answer in its context."""
_KEPT = 32  # answers of a server: nobody asks for the details of older ones
_NOTE = 200  # bytes of a note, and the least that is worth showing of a value


@dataclass(frozen=True, slots=True)
class Answers:
    """The last answers of a server, whole, by their number."""

    _whole: deque[tuple[int, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def add(self, value: dict[str, Any], room: int = LIMIT) -> str:
        """Keep an answer; return it with its number, cut to a number of bytes."""
        number = self._whole[-1][0] + 1 if self._whole else 1
        whole = {"answer": number, **value}
        self._whole.append((number, whole))
        return _text(_Cut(number), whole, room)

    def part(self, answer: int, at: str = "", first: int = 0) -> str:
        """Return a part of an earlier answer.

        Args:
            answer: number of the answer.
            at: path of the part, a JSON Pointer: /results/0/result/sites/3.
            first: number of the entry, or of the character of a text, to begin with.

        Raises:
            UsageError: the part does not exist.
        """
        value = dict(self._whole).get(answer)
        if value is None:
            raise UsageError(f"Answer {answer} is not known. Call the tool again.")
        for step in at.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            try:
                value = value[int(name)] if isinstance(value, list) else value[name]
            except (LookupError, TypeError, ValueError):
                raise UsageError(f"Answer {answer} has nothing at {at}. Use a path that an answer names.") from None
        return _text(_Cut(answer), value, LIMIT, at=at, first=max(first, 0))


def _text(cut: "_Cut", value: Any, limit: int, at: str = "", first: int = 0) -> str:
    """The JSON text of a value, or of the parts of it that fit."""
    room = limit
    while len(text := _json(cut.fitting(value, room, at, first))) > limit and room > _NOTE:
        room -= _NOTE
    return text[:limit].decode(errors="ignore")  # names may be longer than any limit


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")


def _size(value: Any) -> int:
    return len(_json(value)) + len(", ")


@dataclass(frozen=True, slots=True)
class _Cut:
    """Cuts the values of one answer."""

    answer: int
    """The number of the answer in the notes."""

    def fitting(self, value: Any, room: int, at: str, first: int = 0) -> Any:
        """A value of about `room` bytes.  at: its JSON Pointer.  first: the entry to begin with."""
        if not first and _size(value) <= room:
            return value
        match value:
            case str():
                text = value[first : first + max(room - _NOTE, _NOTE)]
                return text + self._rest("characters", len(value), at, first + len(text))
            case list():
                found, after = self._entries(value, room, at, first)
                return [*found, *filter(None, [self._rest("entries", len(value), at, after)])]
            case dict():
                needs = accumulate(min(_size({key: item}), _NOTE) for key, item in islice(value.items(), first, None))
                count = max(1, sum(1 for _ in takewhile(lambda need: need <= room - _NOTE, needs)))
                items = list(islice(value.items(), first, first + count))
                rest = self._rest("keys", len(value), at, first + len(items))
                return dict(self._values(items, room - _NOTE * bool(rest), at)) | ({"…": rest} if rest else {})
        return value

    def _rest(self, unit: str, count: int, at: str, first: int) -> str:
        """The note on entries that are left out; an empty one if none is."""
        call = f"details(answer={self.answer}, at={at!r}, first={first})"
        return f"… {count - first:,} of {count:,} {unit} more: {call}" if first < count else ""

    def _entries(self, value: list[Any], room: int, at: str, first: int) -> tuple[Sequence[Any], int]:
        """The entries of a list that fit, at least a part of one; and the number of the next."""
        found, left = [], room - _NOTE
        for item in value[first:]:
            if _size(item) > left:
                break
            found.append(item)
            left -= _size(item)
        if not found and first < len(value):
            found.append(self.fitting(value[first], left, f"{at}/{first}"))
        return found, first + len(found)

    def _values(self, items: Sequence[tuple[str, Any]], room: int, at: str) -> Iterator[tuple[str, Any]]:
        """The values of a mapping: small ones whole, and large ones share the rest."""
        shares = dict[str, int]()
        for place, (key, item) in enumerate(sorted(items, key=lambda item: _size(item[1]))):
            shares[key] = room // (len(items) - place)
            room -= min(shares[key], _size({key: item}))
        for key, item in items:
            name = key.replace("~", "~0").replace("/", "~1")
            yield key, self.fitting(item, shares[key] - len(key), f"{at}/{name}")
