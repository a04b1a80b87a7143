"""Writes several files as one folder: all of them or none."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from surgeon.errors import ModelFileError
from surgeon.file.io.atomic_file import sweep, sync_folder, temporary_name
from surgeon.file.save import require_folder

_LAST = ".onnx", ".json"  # models refer to data files, and a configuration refers to models


@contextmanager
def staged_folder(folder: Path, contents: str, *, force: bool) -> Iterator[Path]:
    """A temporary folder that replaces `folder` when the context ends; it is removed if an error is raised.

    contents: the later files, as messages name them.  force: write into a folder that contains other files.  Raises
    ModelFileError if the folder is a file, is not empty, or cannot be created.
    """
    require_folder(folder.parent)
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder} is a file. Give a folder for {contents}.")
    is_held = folder.is_dir() and any(folder.iterdir())
    if is_held and not force:
        raise ModelFileError(f"{folder} is not empty. Choose another folder, or use --force to write into it.")
    sweep(folder)
    staging = temporary_name(folder, ".files")
    try:
        staging.mkdir()
    except OSError as error:
        raise ModelFileError(f"No folder can be created in {folder.parent} ({error.strerror}).") from error
    try:
        yield staging
        if is_held or not _removes_empty(folder):
            _move_into(staging, folder)
        else:
            os.rename(staging, folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)  # it does not exist any more after success


def _removes_empty(folder: Path) -> bool:
    """Whether an empty folder is removed; a mount point stays."""
    with suppress(OSError):
        if folder.is_dir():
            folder.rmdir()
    return not folder.exists()


def _move_into(staging: Path, folder: Path) -> None:
    """Move files into a folder with other files, in the order of `_LAST`."""
    files = [path.relative_to(staging) for path in staging.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: _LAST.index(path.suffix) if path.suffix in _LAST else -1):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        os.replace(staging / path, folder / path)
