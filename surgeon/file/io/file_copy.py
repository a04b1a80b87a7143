"""Copies between files by the kernel: reflinks, copy_file_range, holes left as holes.

Systems without these (macOS, Windows) use plain reads and writes.
"""

import errno
import os
import sys
from pathlib import Path

CHUNK = 1 << 22
_KERNEL_CHUNK = 1 << 28  # signals are handled between two chunks
_UNABLE = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTTY, errno.EBADF, errno.EPERM}
_FICLONE = 0x40049409  # linux/fs.h: share the extents of another file
HAS_PLACES = hasattr(os, "preadv") and hasattr(os, "pwrite")
"""Whether several threads can read and write one file, each at its own position."""
_BINARY: int = getattr(os, "O_BINARY", 0)


def open_read(path: Path) -> int:
    """A descriptor for reading raw bytes."""
    return os.open(path, os.O_RDONLY | _BINARY)


def open_new(path: Path) -> int:
    """A descriptor for a new file, which must not exist."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)


def write_all(target: int, data: bytes | memoryview) -> None:
    """Write all bytes at the current position; a single write may write fewer."""
    view = memoryview(data)
    while view:
        view = view[os.write(target, view[: 1 << 30]) :]


def read_at(source: int, start: int, size: int) -> bytes:
    """Up to `size` bytes from position `start`."""
    if hasattr(os, "pread"):
        return os.pread(source, size, start)
    os.lseek(source, start, os.SEEK_SET)
    return os.read(source, size)


def read_into(source: int, start: int, view: memoryview) -> None:
    """Fill a view with the bytes from position `start`.  EOFError if there are fewer."""
    while view:
        if HAS_PLACES:
            count = os.preadv(source, [view], start)
        else:
            data = read_at(source, start, len(view))
            count = len(data)
            view[:count] = data
        if not count:
            raise EOFError("the file is shorter than it was")
        view, start = view[count:], start + count


def write_at(target: int, data: memoryview, at: int) -> None:
    """Write all bytes at a position; the current position stays, if the system can."""
    if not HAS_PLACES:
        os.lseek(target, at, os.SEEK_SET)
        write_all(target, data)
        return
    while data:
        count = os.pwrite(target, data, at)
        data, at = data[count:], at + count


def read_in_order(source: int, start: int, size: int) -> None:
    """Advise the system that `[start, start + size)` will be read sequentially."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(source, start, size, os.POSIX_FADV_SEQUENTIAL)


def copy_span(source: int, start: int, size: int, target: int) -> None:
    """Copy `[start, start + size)` of `source` to the current position of `target`; EOFError if it is shorter."""
    if hasattr(os, "copy_file_range"):
        while size:
            try:
                done = os.copy_file_range(source, target, min(size, _KERNEL_CHUNK), start)
            except OSError as error:
                if error.errno not in _UNABLE:
                    raise
                break
            if not done:
                break
            start += done
            size -= done
    while size:
        data = read_at(source, start, min(size, CHUNK))
        if not data:
            raise EOFError("the file is shorter than it was")
        write_all(target, data)
        start += len(data)
        size -= len(data)


def copy_file(source: int, target: int) -> None:
    """Copy a whole file into the empty `target`: as shared extents if the file system can, else only its data."""
    if _clone(source, target):
        return
    size = os.fstat(source).st_size
    copy_data(source, 0, size, target=target, at=0)
    os.ftruncate(target, size)


def copy_data(source: int, start: int, size: int, target: int, at: int) -> None:
    """Copy `[start, start + size)` of `source` to position `at` of `target`, which has a hole or its end there.

    Holes are left as holes: the target may end before them.  EOFError if the source is shorter.
    """
    place, end = start, start + size
    if os.fstat(source).st_size < end:
        raise EOFError("the file is shorter than it was")
    while place < end:
        first = _next_data(source, place, end)
        if first >= end:
            break
        place = min(_next_hole(source, first, end), end)
        os.lseek(target, at + first - start, os.SEEK_SET)
        copy_span(source, first, place - first, target)


def same_content(one: Path, other: Path) -> bool:
    """Whether two files hold the same bytes; common holes are not read."""
    a, b = open_read(one), open_read(other)
    try:
        size = os.fstat(a).st_size
        if os.fstat(b).st_size != size:
            return False
        at = 0
        while at < size:
            at = min(_next_data(a, at, size), _next_data(b, at, size))
            if at < size and read_at(a, at, CHUNK) != read_at(b, at, CHUNK):
                return False
            at += CHUNK
        return True
    finally:
        os.close(a)
        os.close(b)


def _clone(source: int, target: int) -> bool:
    if sys.platform != "linux":
        return False
    import fcntl  # not on Windows

    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
        return False
    return True


def _next_data(source: int, at: int, size: int) -> int:
    """The next position with data at or after `at`; `size` if only a hole is left."""
    if not hasattr(os, "SEEK_DATA"):
        return at
    try:
        return os.lseek(source, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size
        return at  # the file system does not report holes


def _next_hole(source: int, at: int, size: int) -> int:
    if not hasattr(os, "SEEK_HOLE"):
        return size
    try:
        return os.lseek(source, at, os.SEEK_HOLE)
    except OSError:
        return size  # the file system does not report holes
