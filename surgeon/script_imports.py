"""Modules beside a file that surgeon runs: it may import them, as a script may."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

IMPORTED_FOLDERS: dict[str, None] = {}
"""Folders from which such a file has imported something: another process that is to have its functions needs them."""


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let a file import what lies in its folder while it runs; afterwards `sys.path` is as it was.

    A module of the same name that an earlier file has imported from another folder is none of its neighbours: it makes
    room.  Modules of any other origin stay.
    """
    home = str(folder.resolve())
    beside = set[str]()
    with suppress(OSError):  # a folder whose files may be read may not be listed
        beside = {name.removesuffix(".py") for name in os.listdir(home)}
    for name in beside & sys.modules.keys():
        if _home(name) in IMPORTED_FOLDERS and _home(name) != home:
            del sys.modules[name]
    sys.path.insert(0, home)
    try:
        yield
    finally:
        if home in sys.path:  # unless the file itself has put it out
            sys.path.remove(home)
        if any(_home(name) == home for name in beside & sys.modules.keys()):
            IMPORTED_FOLDERS[home] = None


def _home(name: str) -> str:
    """The folder in which a module lies that was imported by its plain name; empty where it has no file."""
    file = getattr(sys.modules[name], "__file__", None)
    if not isinstance(file, str):
        return ""
    path = Path(file)
    return str(path.parent.parent if path.name == "__init__.py" else path.parent)
