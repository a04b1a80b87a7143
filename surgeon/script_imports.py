"""Imports of modules in the folder of a file that surgeon runs, as Python does for a script."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

IMPORTED_FOLDERS: dict[str, None] = {}
"""Folders from which such a file has imported modules: another process needs them to unpickle its functions."""


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let a file import modules of its folder while it runs; afterwards `sys.path` is restored.

    A module of the same name that an earlier file imported from another folder is removed first.  Modules of any other
    origin stay.
    """
    home = str(folder.resolve())
    beside = set[str]()
    with suppress(OSError):  # a folder may be readable but not listable
        beside = {name.removesuffix(".py") for name in os.listdir(home)}
    for name in beside & sys.modules.keys():
        if _home(name) in IMPORTED_FOLDERS and _home(name) != home:
            del sys.modules[name]
    sys.path.insert(0, home)
    try:
        yield
    finally:
        if home in sys.path:  # unless the file itself removed it
            sys.path.remove(home)
        if any(_home(name) == home for name in beside & sys.modules.keys()):
            IMPORTED_FOLDERS[home] = None


def _home(name: str) -> str | None:
    """The folder of a module that was imported by its plain name; None if it has no file."""
    file = getattr(sys.modules[name], "__file__", None)
    if not isinstance(file, str):
        return None
    path = Path(file)
    return str(path.parent.parent if path.name == "__init__.py" else path.parent)
