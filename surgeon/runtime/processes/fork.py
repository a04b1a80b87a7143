"""Workers that start as copies (forks) of this process, so that they do not import modules again.

Only the process of a program is copied, before it reads a model, and only on systems that support it.  At that time it
is small, and no other thread holds a lock for which the copy would wait.
"""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from typing import IO, NoReturn

from surgeon.runtime.processes import worker_main

_SHORTEST, _LONGEST = 0.0005, 0.05  # seconds between two checks whether a copy has ended

SINGLE_THREAD_ENV = {"OPENBLAS_NUM_THREADS": "1"}
"""Environment of workers, because several run at once and the time of a worker includes all of its threads.

A program sets it before it imports numpy, because its copies inherit its threads.
"""

_is_program = False


def allow_fork() -> None:
    """Declare that this process belongs to a program and may be copied.  Call it before numpy is imported."""
    global _is_program
    _is_program = True
    os.environ.update(SINGLE_THREAD_ENV)


def can_fork() -> bool:
    """Whether this process may be copied.  On macOS the system libraries do not survive it."""
    return _is_program and sys.platform == "linux"


class ForkedProcess:
    """A copy of this process that works as a worker, with the interface of `subprocess.Popen`.

    shared: open files that it keeps.  Raises OSError if the process cannot start.
    """

    def __init__(self, shared: Sequence[int]) -> None:
        requests, asked = os.pipe()
        answers, output = os.pipe()
        try:
            with warnings.catch_warnings():  # Python 3.12 warns if there are threads, like that of our progress display
                warnings.simplefilter("ignore", DeprecationWarning)
                self.pid = os.fork()
        except OSError:
            for file in (requests, asked, answers, output):
                os.close(file)
            raise
        if not self.pid:
            _work(requests, output, shared)
        os.close(requests)
        os.close(output)
        self.stdin: IO[bytes] | None = os.fdopen(asked, "wb")
        self.stdout: IO[bytes] | None = os.fdopen(answers, "rb")
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return its exit code if it has ended, else None; negative for a signal."""
        if self._code is None:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit code.  Raises subprocess.TimeoutExpired after `timeout` seconds."""
        until, pause = None if timeout is None else time.monotonic() + timeout, _SHORTEST
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() >= until:
                raise subprocess.TimeoutExpired("a copy of this process", timeout or 0.0)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)
        return code

    def kill(self) -> None:
        """End it at once."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _work(requests: int, output: int, shared: Sequence[int]) -> NoReturn:
    """Run as a worker, with new pipes and without this process's open files, signals and garbage."""
    try:
        os.dup2(requests, 0)
        os.dup2(output, 1)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 2)
        signal.set_wakeup_fd(-1)  # a copy does not use the pipe to the program's watchdog
        _close_all_but(shared)
        for name in ("SIGTERM", "SIGHUP"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        gc.freeze()  # existing objects stay shared: a collection would write to all of them
        gc.enable()
        worker_main.keep_memory()
        worker_main.serve([str(file) for file in shared])
    finally:
        os._exit(1)  # a copy must not run the exit handlers of this process


def _close_all_but(kept: Sequence[int]) -> None:
    first = 3
    for file in sorted(kept):
        os.closerange(first, file)
        first = file + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
