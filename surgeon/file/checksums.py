"""Checksums that a model gives of its external data: SHA-1 in hexadecimal digits, as ExternalData.md of ONNX has it.

The specification means that of the whole file, some writers give that of the tensor's own bytes; either tells that the
tensor is as it was written.  Files and tensors are read once for each state of a file, and not where nothing is given.
"""

import os
from functools import lru_cache
from pathlib import Path

from surgeon.file.mapping import State, stamp

_CHUNK = 1 << 20


def agrees(path: Path, start: int, size: int, checksum: str) -> bool:
    """Whether a checksum is that of the bytes `[start, start + size)` of a file, or of all of it.  Raises OSError."""
    state = stamp(path)
    wanted = checksum.strip().lower()
    if (path, state, wanted) in _whole:
        return True
    if _sum_of(path, state, start, size) == wanted:
        return True
    found = _sum_of(path, state, 0, os.path.getsize(path))
    _whole.add((path, state, found))
    return found == wanted


_whole: set[tuple[Path, State | None, str]] = set()  # files that were read to their ends, with their sums


@lru_cache(maxsize=1 << 16)
def _sum_of(path: Path, state: State | None, start: int, size: int) -> str:
    """The SHA-1 of some bytes of a file; `state` tells one content of it from another."""
    import hashlib  # it takes long to load, and few files have checksums

    found = hashlib.sha1(usedforsecurity=False)
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while size > 0 and (piece := file.read(min(size, _CHUNK))):
            found.update(piece)
            size -= len(piece)
    return found.hexdigest()
