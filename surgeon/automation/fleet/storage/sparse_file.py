"""A remote file as a sparse local file: ranges are downloaded when they are read."""

import mmap
import os
from bisect import bisect_left
from pathlib import Path
from typing import cast

from surgeon.automation.fleet.storage.storage import Storage, StoredFile
from surgeon.errors import ModelFileError
from surgeon.file.protobuf.payloads import find_payloads
from surgeon.file.protobuf.wire_format import Buffer, WireError, parse_root

CHUNK = 1 << 23  # bytes in memory at once
_FIRST_READ = 1 << 16  # bytes at the start of a new part of a file; doubled while the scan is sequential
_LARGEST_GAP = 1 << 14  # gaps up to this size are downloaded too
_SMALLEST_PAYLOAD = 1024  # as in Model.open


class SparseFile:
    """A sparse file.  path: of the local file.  brought: bytes downloaded.  failed: the last error of the store."""

    def __init__(self, storage: Storage, file: StoredFile, path: Path) -> None:
        self._storage, self._file, self.path = storage, file, path
        self.size, self.brought = file.size, 0
        self.failed: ModelFileError | None = None
        self._spans: list[tuple[int, int]] = []  # downloaded ranges: sorted, disjoint
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as sparse:
            os.truncate(sparse.fileno(), self.size)

    def fetch(self, start: int, end: int | None) -> None:
        """Download the bytes `[start, end)` in chunks, and keep the modification time of the file."""
        end = self.size if end is None else min(end, self.size)
        gaps = list(self._gaps(start, end))
        if not gaps:
            return
        status = os.stat(self.path)
        handle = os.open(self.path, os.O_WRONLY)
        try:
            for first, last in gaps:
                for at in range(first, last, CHUNK):
                    self._fill(handle, at, min(at + CHUNK, last))
        finally:
            os.close(handle)
            os.utime(self.path, ns=(status.st_atime_ns, status.st_mtime_ns))  # readers detect changes by it
        self._add_span(start, end)

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
        """The parts of a range that are not downloaded."""
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

    def _add_span(self, start: int, end: int) -> None:
        spans: list[tuple[int, int]] = []
        for first, last in sorted([*self._spans, (start, end)]):
            if spans and first <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(spans[-1][1], last))
            else:
                spans.append((first, last))
        self._spans = spans


class _ScannedBytes:
    """The bytes of a sparse file for a scan: ranges are downloaded, with a growing lookahead."""

    def __init__(self, file: SparseFile) -> None:
        self._file, self._start, self._end, self._step = file, 0, 0, _FIRST_READ
        with open(file.path, "rb") as handle:
            self._map = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return self._file.size

    def __getitem__(self, key: int | slice) -> int | bytes:
        if isinstance(key, slice):
            start, stop, _ = key.indices(self._file.size)
            self._require_range(start, stop)
            return self._map[start:stop]
        self._require_range(key, key + 1)
        return self._map[key]

    def _require_range(self, start: int, end: int) -> None:
        if self._start <= start and end <= self._end:
            return
        is_sequential = self._start <= start <= self._end + _LARGEST_GAP
        self._step = min(self._step * 2, CHUNK) if is_sequential else _FIRST_READ
        self._start, self._end = (self._start if is_sequential else start), max(end, start + self._step)
        self._file.fetch(start, self._end)


def bring_skeleton(file: SparseFile) -> None:
    """Download all of a model except the data of its tensors; of another file, everything."""
    data = _ScannedBytes(file)
    at = 0
    try:
        spans = sorted(
            (start, end)
            for payload in find_payloads(parse_root(cast(Buffer, data)), _SMALLEST_PAYLOAD)
            for _, start, end in payload.spans
        )
    except WireError:
        spans = []  # opening the file reports the error
    for start, end in spans:
        if end - start > _LARGEST_GAP:
            file.fetch(at, start)
            at = end
    file.fetch(at, None)
