"""Another system, as far as Linux can pass for one: Python runs this first where this folder is on its path.

TEST_SYSTEM is `win32` or `darwin`.  What these lack is taken away from the standard library; what libraries bound
before stays theirs, for they have ways of their own there.  For `win32` a file that is open or mapped cannot be
renamed, replaced or removed, as on Windows.  `os.name` stays, for paths would be Windows' own with it.
"""

import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click  # noqa: F401 - what chooses by the platform does it now
import onnx  # noqa: F401
import onnx_graphsurgeon  # noqa: F401
import onnxruntime  # noqa: F401
import rich.console  # noqa: F401

NEITHER_HAS = (
    "copy_file_range", "memfd_create", "sched_getaffinity", "sched_setaffinity", "splice", "eventfd", "pidfd_open",
    "posix_fadvise", "posix_fallocate", "SEEK_DATA", "SEEK_HOLE",
)  # fmt: skip
NOT_ON_WINDOWS = (
    "fork", "forkpty", "register_at_fork", "fchmod", "fchown", "chown", "lchown", "chroot", "pread", "preadv", "pwrite",
    "pwritev", "sendfile", "sysconf", "statvfs", "fstatvfs", "uname", "mkfifo", "mknod", "getuid", "geteuid", "getgid",
    "getegid", "getgroups", "setsid", "getpgid", "killpg", "nice", "sync", "fdatasync", "lockf", "wait3", "wait4",
    "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "O_SYNC", "O_PATH", "O_TMPFILE",
)  # fmt: skip
SIGNALS_OF_WINDOWS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN"}
MODULES_OF_POSIX = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix_ipc", "syslog")

FDS, MAPS = "/proc/self/fd", "/proc/self/maps"


def main(system: str) -> None:
    """Become another system."""
    for module in (os, signal):  # it has ways of its own there, and keeps those that it has here
        setattr(subprocess, module.__name__, copy_of(module))
    take_away(os, NEITHER_HAS)
    if system == "win32":
        for name in ("replace", "rename", "unlink", "remove"):
            setattr(os, name, refusing_open_files(getattr(os, name)))
        take_away(os, NOT_ON_WINDOWS)
        names = [name for name in dir(signal) if name.startswith("SIG") and name not in SIGNALS_OF_WINDOWS]
        take_away(signal, (*names, "setitimer", "getitimer", "ITIMER_PROF", "ITIMER_REAL", "ITIMER_VIRTUAL", "alarm"))
        for name in MODULES_OF_POSIX:
            sys.modules[name] = None  # type: ignore[assignment]  # so that importing it fails
    hide_proc()
    sys.platform = system


def copy_of(module: types.ModuleType) -> types.ModuleType:
    """A module of the same content."""
    made = types.ModuleType(module.__name__)
    vars(made).update(vars(module))
    return made


def take_away(module: types.ModuleType, names: tuple[str, ...]) -> None:
    """Names that a module has no more."""
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


def refusing_open_files(function: Callable[..., Any]) -> Callable[..., Any]:
    """What changes the names of files, and refuses those that this process has open or mapped."""
    listdir, readlink, opened = os.listdir, os.readlink, open

    def refusing(*paths: Any, **named: Any) -> Any:
        if named.get("dir_fd") is None:
            held = set()
            for number in listdir(FDS):
                try:
                    held.add(readlink(f"{FDS}/{number}"))
                except OSError:
                    continue  # that of the listing itself
            with opened(MAPS, encoding="utf-8", errors="surrogateescape") as lines:
                held.update(line.split(maxsplit=5)[5].rstrip("\n") for line in lines if len(line.split(maxsplit=5)) > 5)
            for path in paths:
                if os.path.realpath(path) in held:
                    raise PermissionError(13, "The process cannot access the file because it is being used", str(path))
        return function(*paths, **named)

    return refusing


def hide_proc() -> None:
    """No file of /proc or /sys is found by Path, nor opened."""
    real = Path.read_text

    def read_text(self: Path, *given: Any, **named: Any) -> str:
        if str(self).startswith(("/proc", "/sys", "/dev/shm")):
            raise FileNotFoundError(2, "No such file or directory", str(self))
        return real(self, *given, **named)

    Path.read_text = read_text  # type: ignore[method-assign]


if os.environ.get("TEST_SYSTEM"):
    main(os.environ["TEST_SYSTEM"])
