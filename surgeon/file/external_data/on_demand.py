"""Files that are holes until they are looked at: their bytes lie elsewhere, and are brought where somebody reads them.

Whoever reads the data of tensors, here or through another program, asks for them first; nothing else of a model is a
hole.  No file is one but where a fleet reads from a store.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol


class Elsewhere(Protocol):
    """Where the bytes of a file lie."""

    def bring(self, start: int, end: int | None) -> None:
        """Put the bytes `[start, end)` into the file, to its end for None.  Raises ModelFileError."""
        ...


_known: dict[str, Elsewhere] = {}


@contextmanager
def brought(files: Mapping[Path, Elsewhere]) -> Iterator[None]:
    """Bring what is read of these files meanwhile."""
    names = {os.path.abspath(path): source for path, source in files.items()}
    _known.update(names)
    try:
        yield
    finally:
        for name in names:
            _known.pop(name, None)


def bring(path: Path | None, start: int = 0, end: int | None = None) -> None:
    """Have the bytes `[start, end)` of a file be there."""
    if _known and path is not None:
        found = _known.get(os.path.abspath(path))
        if found is not None:
            found.bring(start, end)


def bring_everything() -> None:
    """Have all of them be there whole, for a program that reads files without asking."""
    for found in _known.values():
        found.bring(0, None)
