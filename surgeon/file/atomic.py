"""A file that appears whole or not at all: a temporary file beside the target, then a rename.

The temporary file is called `.{name}.surgeon-{pid}.tmp`.  What a killed run left behind is recognised by that name and
goes when the same target is written again: its process is gone, or holds no lock on it.
"""

import contextlib
import os
import re
import stat
import sys
from pathlib import Path
from types import TracebackType

_BINARY: int = getattr(os, "O_BINARY", 0)


def temporary_name(target: Path, part: str = "") -> Path:
    """The name of this process's temporary file beside `target`; `part` tells a second one apart."""
    return target.with_name(f".{target.name}.surgeon-{os.getpid()}{part}.tmp")


class AtomicFile:
    """A temporary file beside `target`: write to `handle`, then `commit`; leaving the block first removes it."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.temporary = temporary_name(target)
        self.handle = -1

    def __enter__(self) -> "AtomicFile":
        sweep(self.target)
        self.handle = os.open(self.temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        try:
            _lock(self.handle)
            self._keep_mode()
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._discard()

    def link(self, source: Path) -> None:
        """Make the temporary file a hard link of `source` instead of a file of its own."""
        os.close(self.handle)
        self.handle = -1
        self.temporary.unlink()
        os.link(source, self.temporary)

    def commit(self) -> None:
        """Make the written bytes durable and give them the target's name."""
        if self.handle >= 0:
            os.fsync(self.handle)
            os.close(self.handle)
            self.handle = -1
        os.replace(self.temporary, self.target)

    def _keep_mode(self) -> None:
        """The mode bits of a file that is replaced stay."""
        if sys.platform == "win32":
            return
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(self.handle, stat.S_IMODE(os.stat(self.target).st_mode))

    def _discard(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1
        self.temporary.unlink(missing_ok=True)


def sweep(target: Path) -> None:
    """Remove the temporary files that dead runs left beside `target`."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.surgeon-(\d+)(?:\.old)?\.tmp")
    for entry in os.listdir(target.parent):
        match = pattern.fullmatch(entry)
        if match and _is_dead(target.with_name(entry), int(match[1])):
            target.with_name(entry).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable, where the system can."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):  # some file systems cannot; the rename has happened all the same
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_dead(path: Path, pid: int) -> bool:
    """Whether nobody writes this file any more.  The lock settles what a process id seen elsewhere cannot."""
    if sys.platform == "win32":
        return True  # there an open file cannot be removed, so trying is safe
    if pid != os.getpid() and _is_alive(pid):
        return False
    import fcntl

    try:
        handle = os.open(path, os.O_RDONLY)
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


def _is_alive(pid: int) -> bool:
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

        with contextlib.suppress(OSError):  # no locks on this file system: the process id has to do
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
