"""Byte-range edits to a source: deletions, insertions, and the enclosing lengths.

An edited source is a list of *pieces*: spans of the source, spans of other files, and new bytes.  Only the lengths of
messages that grow or shrink are encoded again.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from surgeon.errors import ModelFileError, RewriteError
from surgeon.file.protobuf.wire_format import MAX_SIZE, Buffer, MessageSpan, write_varint
from surgeon.file.tensors.casting import DataChange


@dataclass(frozen=True)
class FileSpan:
    """A range of bytes in another file."""

    path: Path
    """The file."""
    start: int
    """First byte."""
    size: int
    """Number of bytes, after `change` if there is one."""
    change: DataChange | None = None
    """Conversion to another dtype; None: copied as they are."""


Span = tuple[int, int]
Piece = Span | bytes | FileSpan

_INSERT_LAST = 1  # sorts a cut after inserts at the same position, whose order is minus the depth


class ByteEdits:
    """A growing list of edits to one source of `size` bytes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._edits: list[tuple[int, int, int, int, bytes | FileSpan]] = []  # start, order, number, end, new
        self._growth: defaultdict[MessageSpan, int] = defaultdict(int)

    def __len__(self) -> int:
        return len(self._edits)

    def copy(self) -> "ByteEdits":
        """An independent copy."""
        made = ByteEdits(self._size)
        made._edits, made._growth = self._edits.copy(), self._growth.copy()
        return made

    @property
    def result_size(self) -> int:
        """The size of the edited source, in bytes."""
        return self._lengths()[1]

    def cut(self, frame: MessageSpan, start: int, end: int, new: bytes = b"") -> None:
        """Replace the span `[start, end)` inside `frame` with `new`."""
        self._edits.append((start, _INSERT_LAST, len(self._edits), end, new))
        self._growth[frame] += len(new) - (end - start)

    def insert(self, frame: MessageSpan, at: int, new: bytes | FileSpan) -> None:
        """Insert `new` before position `at` of `frame`; insertions at one position keep the order of the calls."""
        self._edits.append((at, -frame.depth, len(self._edits), at, new))
        self._growth[frame] += len(new) if isinstance(new, bytes) else new.size

    def pieces(self) -> list[Piece]:
        """The edited source in order.

        Raises RewriteError if two edits overlap: a record cut twice, or edited inside and cut as a whole.  Raises
        ModelFileError if the result would reach 2 GiB.
        """
        lengths, size = self._lengths()
        if size > MAX_SIZE:
            raise ModelFileError(
                f"The model would have {size:,} bytes, more than protobuf's 2 GiB. Keep weights in external data."
            )
        pieces: list[Piece] = []
        add = pieces.append
        done = 0
        for start, _, _, end, new in sorted([*self._edits, *lengths]):
            if start < done:
                raise _conflict(start)
            if start > done:
                add((done, start))
            if new:
                add(new)
            done = end
        if done < self._size:
            add((done, self._size))
        return pieces

    def _lengths(self) -> tuple[list[tuple[int, int, int, int, bytes]], int]:
        """The edits of the enclosing lengths, and the total size after all edits."""
        growth = dict(self._growth)
        frames = set(growth)
        for frame in self._growth:
            while frame.parent is not None and frame.parent not in frames:
                frame = frame.parent
                frames.add(frame)
        out: list[tuple[int, int, int, int, bytes]] = []
        total = self._size
        for frame in sorted(frames, key=attrgetter("start"), reverse=True):  # a frame starts after its parent
            delta = growth.get(frame, 0)
            if frame.parent is None:
                total += delta
            elif delta:
                if frame.end - frame.start + delta < 0:
                    raise _conflict(frame.start)
                new = write_varint(frame.end - frame.start + delta)
                out.append((frame.length_at, _INSERT_LAST, 0, frame.start, new))
                gain = delta + len(new) - (frame.start - frame.length_at)
                growth[frame.parent] = growth.get(frame.parent, 0) + gain
        return out, total


def _conflict(position: int) -> RewriteError:
    return RewriteError(f"Two edits overlap at byte {position}: a record was edited twice, or lies in a removed one.")


def join(data: Buffer, pieces: Iterable[Piece]) -> bytes:
    """The bytes of the pieces; those of other files are read."""
    out: list[bytes] = []
    for piece in pieces:
        if isinstance(piece, tuple):
            out.append(data[piece[0] : piece[1]])
        else:
            out.append(piece if isinstance(piece, bytes) else read_span(piece))
    return b"".join(out)


def read_span(span: FileSpan, size: int | None = None) -> bytes:
    """The bytes of a span, or the first `size` of them.  Raises ModelFileError if the file became shorter."""
    wanted = span.size if size is None else size
    if span.change is not None:
        wanted = span.change.source_size(wanted)
    with open(span.path, "rb") as file:
        file.seek(span.start)
        data = file.read(wanted)
    if len(data) < wanted:
        raise ModelFileError(f"{span.path} became shorter while it was read. Run the command again.")
    return data if span.change is None else span.change.data(data)
