"""Atomic files: a temporary file next to the target, then a rename.

The temporary file is named `.{name}.surgeon-{pid}.tmp`; if other files must be in its folder, it moves into a folder
`.{name}.surgeon-{pid}.files.tmp`.  Leftovers of a killed run are recognised by these names and removed when the same
target is written again: their process is gone, or holds no lock on them.
"""

import contextlib
import os
import re
import shutil
import stat
import sys
from pathlib import Path
from types import TracebackType

from surgeon.file.io.file_copy import write_all

_BINARY: int = getattr(os, "O_BINARY", 0)


def temporary_name(target: Path, part: str = "") -> Path:
    """The name of this process's temporary file next to `target`; `part` distinguishes the folder."""
    return target.with_name(f".{target.name}.surgeon-{os.getpid()}{part}.tmp")


class AtomicFile:
    """A temporary file next to `target`: write to `handle`, then `commit`; leaving the block without it removes the
    file.

    folder: the temporary folder for other files, if there is one.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.temporary = temporary_name(target)
        self.handle = -1
        self.folder: Path | None = None
        self._held = -1

    def __enter__(self) -> "AtomicFile":
        sweep(self.target)
        self.handle = os.open(self.temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        try:
            _lock(self.handle)
            keep_owner(self.handle, self.target)
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._discard()

    def enter_folder(self) -> Path:
        """Move the temporary file, under the target's name, into a new temporary folder; returns the folder.

        `temporary` is its new path.  The folder is removed with everything in it.
        """
        folder = temporary_name(self.target, ".files")
        folder.mkdir()
        self.folder = folder  # not before, since it may belong to another save
        inside = folder / self.target.name
        self._close()  # an open file cannot be moved on Windows
        os.rename(self.temporary, inside)
        self.temporary = inside
        self.handle = os.open(inside, os.O_RDWR | _BINARY)
        _lock(self.handle)
        return folder

    def open_folder(self) -> Path:
        """Create a temporary folder for other files; the temporary file is not moved."""
        folder = temporary_name(self.target, ".files")
        folder.mkdir()
        self.folder = folder
        self._held = os.open(folder / self.target.name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        _lock(self._held)  # marks the folder as in use
        return folder

    def commit(self) -> None:
        """Sync the written bytes and rename the file to the target."""
        if self.handle >= 0:
            os.fsync(self.handle)
            self._close()
        os.replace(self.temporary, self.target)

    def _close(self) -> None:
        if self.handle >= 0:
            handle, self.handle = self.handle, -1
            os.close(handle)

    def _discard(self) -> None:
        self._close()
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
        self.temporary.unlink(missing_ok=True)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)  # leftovers are removed by the next save


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a terminal or a pipe is at this path; /dev/stdout has no real path then."""
    return os.path.exists(path) and not os.path.isdir(path) and not stat.S_ISREG(os.stat(path).st_mode)


def write_text(path: str | os.PathLike[str], text: str, errors: str = "strict") -> None:
    """Write a small file atomically; a stream is written directly.

    errors: as of `str.encode`.  Raises OSError.
    """
    if is_stream(path):
        Path(path).write_text(text, encoding="utf-8", errors=errors)
        return
    with AtomicFile(Path(os.path.realpath(path))) as file:
        write_all(file.handle, text.encode("utf-8", errors))
        file.commit()


def keep_owner(handle: int, target: Path) -> None:
    """Give the open file the owner, group and mode of the one that it will replace, if there is one.

    An owner or group that this process may not set is not changed.  setuid and setgid are cleared: they were meant for
    other content.
    """
    if not hasattr(os, "fchown"):
        return  # Windows: the folder decides about permissions
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return
    os.fchmod(handle, stat.S_IMODE(status.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))  # while this process owns it
    try:
        os.fchown(handle, status.st_uid, status.st_gid)
    except OSError:
        with contextlib.suppress(OSError):
            os.fchown(handle, -1, status.st_gid)


def sweep(target: Path) -> None:
    """Remove the temporary files and folders of dead runs next to `target`."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.surgeon-(\d+)(\.files)?\.tmp")
    for entry in os.listdir(target.parent):
        match = pattern.fullmatch(entry)
        path = target.with_name(entry)
        if not match or path.is_dir() != bool(match[2]) or path.is_symlink():
            continue
        file = path / target.name if match[2] else path
        if _is_dead(file, int(match[1])):
            with contextlib.suppress(PermissionError):  # on Windows: its process lives, and has it open
                file.unlink(missing_ok=True)
                if match[2]:
                    shutil.rmtree(path, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Sync a rename in `folder`, if the system can."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):  # some file systems cannot sync; the rename has happened anyway
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_dead(path: Path, pid: int) -> bool:
    """Whether no process writes this file any more.  The lock decides where process ids are of another namespace."""
    if sys.platform == "win32":
        return True  # there an open file cannot be removed, so trying is safe
    if pid != os.getpid() and is_alive(pid):
        return False
    import fcntl

    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return True  # a folder without its file
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return pid != os.getpid()  # no locks on this file system
    finally:
        os.close(handle)
    return True


def is_alive(pid: int) -> bool:
    """Whether a process with this id runs on this machine; do not call it on Windows: there, it ends the process."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _lock(handle: int) -> None:
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):  # without locks the process id must suffice
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
