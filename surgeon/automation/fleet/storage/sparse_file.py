"""A file of a store as a hole of its size on this machine, of which ranges are filled when they are looked at."""

import mmap
import os
from bisect import bisect_left
from pathlib import Path
from typing import cast

from surgeon.automation.fleet.storage.storage import Storage, StoredFile
from surgeon.errors import ModelFileError
from surgeon.file.protobuf.payloads import find_payloads
from surgeon.file.protobuf.wire_format import Buffer, WireError, parse_root

PIECE = 1 << 23  # bytes that are held at once
_FIRST = 1 << 16  # bytes brought where a scan comes to a new part of a file; the double where it goes on
_NEAR = 1 << 14  # holes up to here between what is needed are brought along
_PAYLOAD = 1024  # as of a model that is opened


class SparseFile:
    """A hole.  path: on this machine.  brought: bytes that were.  failed: what the store did not give."""

    def __init__(self, storage: Storage, file: StoredFile, path: Path) -> None:
        self._storage, self._file, self.path = storage, file, path
        self.size, self.brought = file.size, 0
        self.failed: ModelFileError | None = None
        self._spans: list[tuple[int, int]] = []  # that are there: sorted, apart
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as made:
            os.truncate(made.fileno(), self.size)

    def bring(self, start: int, end: int | None) -> None:
        """Put the bytes `[start, end)` there, piece by piece, and leave the file's time as it is."""
        end = self.size if end is None else min(end, self.size)
        gaps = list(self._gaps(start, end))
        if not gaps:
            return
        status = os.stat(self.path)
        handle = os.open(self.path, os.O_WRONLY)
        try:
            for first, last in gaps:
                for at in range(first, last, PIECE):
                    self._fill(handle, at, min(at + PIECE, last))
        finally:
            os.close(handle)
            os.utime(self.path, ns=(status.st_atime_ns, status.st_mtime_ns))  # by which others tell that it changed
        self._note(start, end)

    def _fill(self, handle: int, start: int, end: int) -> None:
        try:
            data = self._storage.read(self._file.path, start, end)
            if len(data) != end - start:
                raise ModelFileError(f"{self._storage.url(self._file.path)} became shorter while it was read.")
        except ModelFileError as error:
            self.failed = error
            raise
        os.lseek(handle, start, os.SEEK_SET)
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        self.brought += len(data)

    def _gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """What of a range is not there."""
        gaps: list[tuple[int, int]] = []
        place = max(bisect_left(self._spans, (start, start)) - 1, 0)
        for first, last in self._spans[place:]:
            if first >= end:
                break
            if start < first:
                gaps.append((start, first))
            start = max(start, last)
        if start < end:
            gaps.append((start, end))
        return gaps

    def _note(self, start: int, end: int) -> None:
        spans: list[tuple[int, int]] = []
        for first, last in sorted([*self._spans, (start, end)]):
            if spans and first <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(spans[-1][1], last))
            else:
                spans.append((first, last))
        self._spans = spans


class _Scanned:
    """The bytes of a ranged file for a scan: what it comes to is brought, and more where it goes straight on."""

    def __init__(self, file: SparseFile) -> None:
        self._file, self._start, self._end, self._step = file, 0, 0, _FIRST
        with open(file.path, "rb") as handle:
            self._map = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return self._file.size

    def __getitem__(self, key: int | slice) -> int | bytes:
        if isinstance(key, slice):
            start, stop, _ = key.indices(self._file.size)
            self._reach(start, stop)
            return self._map[start:stop]
        self._reach(key, key + 1)
        return self._map[key]

    def _reach(self, start: int, end: int) -> None:
        if self._start <= start and end <= self._end:
            return
        goes_on = self._start <= start <= self._end + _NEAR
        self._step = min(self._step * 2, PIECE) if goes_on else _FIRST
        self._start, self._end = (self._start if goes_on else start), max(end, start + self._step)
        self._file.bring(start, self._end)


def bring_skeleton(file: SparseFile) -> None:
    """Bring all of a model but the data of its tensors.  Of a file that is no model, all."""
    data = _Scanned(file)
    at = 0
    try:
        spans = sorted(
            (start, end)
            for payload in find_payloads(parse_root(cast(Buffer, data)), _PAYLOAD)
            for _, start, end in payload.spans
        )
    except WireError:
        spans = []  # whoever opens it says what is wrong
    for start, end in spans:
        if end - start > _NEAR:
            file.bring(at, start)
            at = end
    file.bring(at, None)
