"""Files that are mapped: which state of a file a map is of, what is taken out of it, and letting go of it.

A map holds its file open for as long as an array looks into it, so that arrays keep files open that a user has long
done with: small ones are copies.
"""

import mmap
import os
import sys
from pathlib import Path
from typing import IO

from surgeon.errors import ModelFileError
from surgeon.file.io.file_type import refuse_special, unreadable
from surgeon.file.protobuf.wire_format import MAX_SIZE, Buffer

COPIED = 1 << 16  # bytes up to which a value is a copy; on Windows all are, where no mapped file can be replaced
AT_ONCE = 1 << 22  # bytes of a map that are read before their memory is given back

State = tuple[int, int, int, int]


def stamp(path: Path) -> State | None:
    """What tells one state of a file from another: time of change, size, inode, device; None without a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev)


def map_whole(path: Path) -> mmap.mmap:
    """The bytes of a model file; ModelFileError, in one sentence, where it cannot be read or is too large."""
    special = refuse_special(path)
    if special is not None:
        raise ModelFileError(special)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                raise ModelFileError(f"{path} is empty: export or download it again.")
            if size > MAX_SIZE:
                raise ModelFileError(
                    f"{path} takes {size:,} bytes, more than protobuf's 2 GiB: keep weights in external data."
                )
            return map_open(file)
    except OSError as error:
        raise ModelFileError(unreadable(path, error)) from None


def map_open(file: IO[bytes]) -> mmap.mmap:
    """A map of an open file, to be read; from Python 3.13 on it needs no descriptor of its own."""
    if sys.version_info >= (3, 13) and sys.platform != "win32":
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, trackfd=False)
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def span_of(data: Buffer, start: int, end: int) -> tuple[Buffer, int, int]:
    """What to look for bytes `[start, end)` of a map in, and where in it: a copy of them, or the map itself."""
    if end - start > COPIED and sys.platform != "win32":
        return data, start, end
    return data[start:end], 0, end - start


def forget_pages(data: Buffer) -> None:
    """Give back the memory of what was read of a map; read again, it comes from the system's cache of the file."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED)


def holds_word(data: Buffer, word: bytes) -> bool:
    """Whether a map holds these bytes; it is read bit by bit, so that little of it is in memory at once."""
    for start in range(0, len(data), AT_ONCE):
        is_there = data.find(word, start, start + AT_ONCE + len(word) - 1) >= 0
        forget_pages(data)
        if is_there:
            return True
    return False


def close_map(found: mmap.mmap) -> None:
    """Unmap now, or, where arrays still look into it, when the last of them goes."""
    try:
        found.close()
    except BufferError:
        return  # exported to numpy; the collector unmaps it with the last array
