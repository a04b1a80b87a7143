"""Kill the descendants of a process."""

import contextlib
import os
import signal
from pathlib import Path


def kill_descendants(pid: int) -> None:
    """Kill the descendants of a process, on systems with /proc.

    Call it before the process itself is killed.  Its descendants may not notice its end: one that holds Python's lock
    in C code does not check.  The calling process is never killed.
    """
    for one in descendants(pid):
        if one != os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and their descendants, each after its parent."""
    started: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended
            status = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            parent = int(status.rpartition(")")[2].split()[1])
            started.setdefault(parent, []).append(int(folder.name))
    found = list(started.get(pid, ()))
    for one in found:  # grows while it is read
        found += started.get(one, ())
    return found
