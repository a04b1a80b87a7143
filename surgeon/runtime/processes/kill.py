"""Ending what a process has started."""

import contextlib
import os
import signal
from pathlib import Path


def kill_descendants(pid: int) -> None:
    """Kill what a process and its descendants started, where the system lists processes in files.

    Call it before the process itself is killed, which its descendants may not notice: one that holds Python's lock in
    C code looks at nothing.  The calling process is spared.
    """
    for one in descendants(pid):
        if one != os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that these started, each behind its parent."""
    started: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            status = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            parent = int(status.rpartition(")")[2].split()[1])
            started.setdefault(parent, []).append(int(folder.name))
    found = list(started.get(pid, ()))
    for one in found:  # grows on the way
        found += started.get(one, ())
    return found
