"""Memory-mapped files: the state of a mapped file, ranges of a map, and closing it.

A map keeps its file open as long as an array refers to it, so small values are copied: otherwise arrays would keep
files open that a user no longer needs.
"""

import mmap
import os
import sys
from pathlib import Path
from typing import IO

from surgeon.errors import ModelFileError
from surgeon.file.io.file_type import refuse_special, unreadable
from surgeon.file.protobuf.wire_format import MAX_SIZE, Buffer

COPIED = 1 << 16  # bytes up to which a value is copied; on Windows all are, since mapped files cannot be replaced
AT_ONCE = 1 << 22  # bytes of a map that are read before their memory is released

State = tuple[int, int, int, int]


def stamp(path: Path) -> State | None:
    """The state of a file: time of change, size, inode, device; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev)


def map_whole(path: Path) -> mmap.mmap:
    """The bytes of a model file; ModelFileError if it cannot be read or is too large."""
    special = refuse_special(path)
    if special is not None:
        raise ModelFileError(special)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                raise ModelFileError(f"{path} is empty. Export or download it again.")
            if size > MAX_SIZE:
                raise ModelFileError(
                    f"{path} has {size:,} bytes, more than protobuf's 2 GiB. Keep weights in external data."
                )
            return map_open(file)
    except OSError as error:
        raise ModelFileError(unreadable(path, error)) from None


def map_open(file: IO[bytes]) -> mmap.mmap:
    """A read-only map of an open file; from Python 3.13 on it needs no separate descriptor."""
    if sys.version_info >= (3, 13) and sys.platform != "win32":
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, trackfd=False)
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def span_of(data: Buffer, start: int, end: int) -> tuple[Buffer, int, int]:
    """A buffer with the bytes `[start, end)` of a map, and their range in it: a copy, or the map itself."""
    if end - start > COPIED and sys.platform != "win32":
        return data, start, end
    return data[start:end], 0, end - start


def forget_pages(data: Buffer) -> None:
    """Release the memory of pages that were read; reading again uses the system's file cache."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED)


def holds_word(data: Buffer, word: bytes) -> bool:
    """Whether a map contains these bytes; it is read in blocks, so that little of it is in memory at once."""
    for start in range(0, len(data), AT_ONCE):
        is_there = data.find(word, start, start + AT_ONCE + len(word) - 1) >= 0
        forget_pages(data)
        if is_there:
            return True
    return False


def close_map(found: mmap.mmap) -> None:
    """Unmap now, or, if arrays still refer to it, when the last of them is freed."""
    try:
        found.close()
    except BufferError:
        return  # numpy arrays refer to it; the last one unmaps it
