"""Sparse files whose bytes are fetched from elsewhere when they are read.

Readers of tensor data, here or in another program, request the bytes first; everything else of a model is present.
Only a fleet that reads from a store uses such files.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol


class ByteSource(Protocol):
    """The source of a file's bytes."""

    def fetch(self, start: int, end: int | None) -> None:
        """Write the bytes `[start, end)` to the file, to its end for None.  Raises ModelFileError."""
        ...


_known: dict[str, ByteSource] = {}


@contextmanager
def fetched_on_demand(files: Mapping[Path, ByteSource]) -> Iterator[None]:
    """Fetch the bytes of these files on demand, inside the context."""
    names = {os.path.abspath(path): source for path, source in files.items()}
    _known.update(names)
    try:
        yield
    finally:
        for name in names:
            _known.pop(name, None)


def fetch(path: Path | None, start: int = 0, end: int | None = None) -> None:
    """Make sure that the bytes `[start, end)` of a file are present."""
    if _known and path is not None:
        found = _known.get(os.path.abspath(path))
        if found is not None:
            found.fetch(start, end)


def fetch_all() -> None:
    """Fetch all files completely, for a program that reads them directly."""
    for found in _known.values():
        found.fetch(0, None)
