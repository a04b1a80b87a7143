"""Moves data files of a model that is being saved from a temporary folder to their targets, and back on failure."""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from surgeon.errors import ModelFileError
from surgeon.file.external_data import locations
from surgeon.file.external_data.new_file import NewDataFile
from surgeon.file.io.atomic_file import AtomicFile, keep_owner, sync_folder
from surgeon.file.io.file_copy import copy_file, open_new, open_read, same_content
from surgeon.file.io.path_encoding import local


@dataclass
class StagedFile:
    """A data file on its way from the temporary folder to its target."""

    staged: Path
    """Path in the temporary folder."""
    target: Path
    """Final path."""
    backup: Path
    """The path to which an existing target is moved."""
    folders: list[Path] = field(default_factory=list)
    """Folders that the move creates, innermost first."""

    def go(self, force: bool) -> None:
        """Move the file, unless the target has the same content already."""
        if not self.staged.exists() or holds(self.target, self.staged, force):
            return
        self.folders = [folder for folder in self.target.parents if not folder.exists()]
        for folder in reversed(self.folders):
            folder.mkdir()
        if self.target.exists():
            os.rename(self.target, self.backup)
        os.replace(self.staged, self.target)
        sync_folder(self.target.parent)

    def go_back(self) -> None:
        """Undo the move, however far it got."""
        if self.backup.exists():
            os.replace(self.backup, self.target)
        elif not self.staged.exists():
            self.target.unlink(missing_ok=True)
        for folder in self.folders:
            with suppress(OSError):  # it was not created, or another save uses it
                folder.rmdir()


def holds(target: Path, path: Path, force: bool) -> bool:
    """Whether `target` has the same data already; ModelFileError if others must not be overwritten."""
    if not target.exists():
        return False
    if os.path.samefile(path, target) or (target.is_file() and same_content(path, target)):
        return True
    if not force or not target.is_file():
        raise ModelFileError(f"{target} exists with other content. Remove it, or overwrite it with force.")
    return False


def stage_copies(found: dict[str, Path], written: AtomicFile, out: Path, force: bool) -> list[StagedFile]:
    """Put the data files (location -> path) next to the written model, unless all are in place already."""
    targets = {location: locations.resolve(out.parent, location) for location in found}
    missing = [location for location, path in found.items() if not holds(targets[location], path, force)]
    if not missing:
        return []
    _require_beside(out, written)
    moves: list[StagedFile] = []
    folder = written.enter_folder()
    for number, (location, path) in enumerate(found.items()):
        staged = folder / local(location)
        if staged.exists():
            continue  # another spelling of the same location
        staged.parent.mkdir(parents=True, exist_ok=True)
        _copy(path, staged, targets[location])
        if location in missing:
            moves.append(StagedFile(staged, targets[location], folder / f".surgeon-old-{number}"))
    return moves


@dataclass(frozen=True)
class CopiedDataFile:
    """A data file of another model that is copied next to this one."""

    location: str
    """Its location, relative to this model."""
    path: Path
    """Path of the original."""

    def write(self, handle: int) -> None:
        """Copy it into an empty file."""
        source = open_read(self.path)
        try:
            copy_file(source, handle)
        finally:
            os.close(source)


def stage(data: NewDataFile | CopiedDataFile, written: AtomicFile, out: Path) -> StagedFile:
    """Write new data to a file in the temporary folder, and sync it."""
    _require_beside(out, written)
    folder = written.folder or written.open_folder()
    staged, target = folder / local(data.location), locations.resolve(out.parent, data.location)
    staged.parent.mkdir(parents=True, exist_ok=True)
    move = StagedFile(staged, target, folder / f".surgeon-old-new-{len(os.listdir(folder))}")
    handle = open_new(move.staged)
    try:
        keep_owner(handle, move.target)
        data.write(handle)
        os.fsync(handle)
    finally:
        os.close(handle)
    return move


def undo_unless_written(move: StagedFile, written: AtomicFile) -> None:
    """Undo a move that preceded its model, if the model was never written."""
    if written.temporary.exists():
        move.go_back()


def _require_beside(out: Path, written: AtomicFile) -> None:
    """Raise ModelFileError if the model would be written to another folder than its data."""
    if not os.path.samefile(out.parent, written.target.parent):
        raise ModelFileError(
            f"{out} is a link into another folder than its data files. Give the path {written.target} instead."
        )


def _copy(path: Path, staged: Path, target: Path) -> None:
    """Copy and sync a data file, with owner and mode of the one that it will replace."""
    handles = [open_read(path)]
    try:
        handles.append(open_new(staged))
        keep_owner(handles[1], target)
        copy_file(*handles)
        os.fsync(handles[1])
    finally:
        for handle in handles:
            os.close(handle)


def put_in_place(file: AtomicFile, moves: list[StagedFile], force: bool) -> None:
    """Move the data files, then the model, to their targets; undo all moves if one fails."""
    begun: list[StagedFile] = []
    try:
        for move in moves:
            begun.append(move)
            move.go(force)
        file.commit()
    except BaseException:
        if file.temporary.exists():  # else an interrupt came after the last step
            for move in reversed(begun):
                move.go_back()
        raise
