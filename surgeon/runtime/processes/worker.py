"""Workers: processes for tasks that may crash, hang or use all memory, so that this process does not.

They start once, are reused, and end with this process.  They run `worker_main.py` by its path, never the user's script.
"""

import atexit
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from surgeon.errors import ModelFileError, UsageError
from surgeon.runtime.processes.fork import SINGLE_THREAD_ENV, ForkedProcess, can_fork
from surgeon.runtime.processes.kill import kill_descendants
from surgeon.runtime.processes.pipe_protocol import read_message, write_message
from surgeon.runtime.processes.worker_main import MALLOC_SETTINGS, NOTE_BYTES

GUARD, MIN_CLOCK = 6.0, 5.0
"""Wall-clock limit of a task: this many times its limit of processor time, and at least these seconds."""
START = 60.0
"""Seconds that a worker may take to start."""
_MIN_MEMORY, DEFAULT_MEMORY_SHARE, ALL_MEMORY = (
    1 << 31,
    0.25,
    1.0,
)  # bytes, and shares of the machine's memory, for a worker
# Signals that nodes cause; others may come from a lack of memory.
CPU_FAULT_SIGNALS = frozenset({"SIGFPE", "SIGILL"})
_MAX_SPECIAL = 4  # idle workers with an affinity

Why = Literal["time", "clock", "memory", "crash", "end"]


@dataclass(frozen=True, slots=True)
class Task:
    """A call of a function in a worker."""

    function: str
    """The function, as "module:name"."""
    argument: Any
    """Its argument, which is pickled."""
    cpu_seconds: float
    """Limit of processor time, in seconds."""
    memory_share: float = DEFAULT_MEMORY_SHARE
    """Limit of memory, as a share of the machine's."""
    wall_seconds: float | None = None
    """Limit of wall-clock time, in seconds; None to derive it from `cpu_seconds`."""
    memory: int | None = None
    """Limit of memory, in bytes; None to derive it from `memory_share`."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task."""

    value: dict[str, Any]
    """JSON data that the function returned."""
    arrays: list[Any]
    """Arrays that it returned."""
    seconds: float = field(default=0.0, compare=False)
    """Processor time in seconds."""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """Why a task has no result."""

    cause: Why
    """A limit ("time": processor, "clock", "memory"), a signal ("crash") or another end of the process ("end")."""
    detail: str = ""
    """Name of the signal, or the exit code."""
    last_note: Any = None
    """The last progress that the function reported."""


TaskOutcome = TaskResult | TaskFailure


def wall_clock_limit(seconds: float) -> float:
    """The limit of wall-clock time for a limit of processor time, in seconds.

    The two are equal if the system cannot end a process by its processor time.
    """
    return max(seconds * GUARD, MIN_CLOCK) if hasattr(signal, "setitimer") else seconds


def memory_limit(share: float = DEFAULT_MEMORY_SHARE) -> int:
    """The bytes of memory that a worker may use: a share of the machine's or the container's memory."""
    found = [1 << 40]
    with contextlib.suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(ValueError, OSError):  # "max" without a limit
            found.append(int(Path(file).read_text(encoding="ascii")))
    return max(int(min(found) * share), _MIN_MEMORY)


def _page() -> int | None:
    """An unnamed open file for the progress notes of a worker.

    None if workers do not inherit open files, or if none can be created.  Then the last progress of a worker that ended
    is unknown.
    """
    if os.name != "posix":
        return None
    with contextlib.suppress(OSError):
        if hasattr(os, "memfd_create"):
            handle = os.memfd_create("surgeon")
        else:  # macOS
            handle, name = tempfile.mkstemp()
            os.unlink(name)
        os.truncate(handle, NOTE_BYTES)
        return handle
    return None


def _started(shared: Sequence[int]) -> "subprocess.Popen[bytes]":
    """A new Python process with these open files."""
    root = Path(__file__).resolve().parents[3]  # the worker must find this package
    paths = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH", ""))))
    kept = {name: str(value) for name, value in MALLOC_SETTINGS.items()}
    return subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("worker_main.py")), *map(str, shared)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=shared,
        env={**os.environ, **kept, **SINGLE_THREAD_ENV, "PYTHONPATH": paths},
    )


class Worker:
    """A running worker, with both ends of its pipes.  Raises UsageError if the process cannot start.

    is_copy: whether it starts as a copy of this process.  affinity: identifies special state, such as a user's
    functions; None without any.
    """

    def __init__(self, *, is_copy: bool = False, affinity: Hashable = None) -> None:
        self.affinity = affinity
        self._notes = _page()
        shared = () if self._notes is None else (self._notes,)
        try:
            self.popen: subprocess.Popen[bytes] | ForkedProcess = ForkedProcess(shared) if is_copy else _started(shared)
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(
                f"Cannot start a process to run models ({why}). End other processes, or use check='none'."
            ) from error
        self._is_new, self._late = True, threading.Event()

    @property
    def is_alive(self) -> bool:
        """Whether it accepts tasks."""
        return self.popen.poll() is None and not self._late.is_set()

    def preload(self, module: str) -> None:
        """Import a module in it while it is idle."""
        with contextlib.suppress(OSError):  # it has ended: the next task reports it
            self._write({"prepare": module}, [])

    def run(self, task: Task) -> TaskOutcome:
        """Run one task.  After a failure, the worker has ended."""
        argument = np.frombuffer(pickle.dumps(task.argument, pickle.HIGHEST_PROTOCOL), np.uint8)
        memory = memory_limit(task.memory_share) if task.memory is None else task.memory
        header = {"function": task.function, "seconds": task.cpu_seconds, "memory": memory}
        clock = wall_clock_limit(task.cpu_seconds) if task.wall_seconds is None else task.wall_seconds
        alarm = threading.Timer(clock + START * self._is_new, self.kill)
        alarm.daemon = True
        alarm.start()
        try:
            self._write(header, [argument])
            answer = None if self.popen.stdout is None else read_message(self.popen.stdout)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):  # the pipe is broken, or has no message
            answer = None
        except BaseException:  # the result, which may take long, is not needed
            self.kill()
            raise
        finally:
            alarm.cancel()
        self._is_new = False
        if answer is None:
            return self._failure()
        reply, arrays = answer
        if reply.get("error") == "MemoryError":
            return TaskFailure("memory", last_note=self._noted())
        if "error" in reply:
            _raise(reply)
        return TaskResult(reply["answer"], arrays, float(reply["seconds"]))

    def end(self, patience: float = 0.0) -> int | None:
        """End it; return its exit code if it had already ended, else None; negative for a signal."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(patience)
        code = self.popen.poll()
        if code is None:
            self.popen.kill()
            self.popen.wait()
        for file in (self.popen.stdin, self.popen.stdout):
            with contextlib.suppress(OSError):
                if file is not None:
                    file.close()
        if self._notes is not None:
            os.close(self._notes)
            self._notes = None
        return code

    def kill(self) -> None:
        """Kill it, even while another thread reads from it."""
        self._late.set()
        kill_descendants(self.popen.pid)
        self.popen.kill()

    def _write(self, header: dict[str, Any], arrays: list[Any]) -> None:
        if self.popen.stdin is not None:
            write_message(self.popen.stdin, header, arrays)

    def _failure(self) -> TaskFailure:
        """End the worker, and return why it failed."""
        was_late, noted = self._late.is_set(), self._noted()
        code = self.end(patience=1.0)
        if was_late:
            return TaskFailure("clock", last_note=noted)
        if code is None or code >= 0:
            return TaskFailure("end", "" if code is None else f"exit code {code}", noted)
        if hasattr(signal, "SIGPROF") and code == -signal.SIGPROF:
            return TaskFailure("time", last_note=noted)
        return TaskFailure("crash", signal.Signals(-code).name, noted)

    def _noted(self) -> Any:
        """The last progress that it noted; None if it cannot be read."""
        if self._notes is None:
            return None
        with contextlib.suppress(OSError, ValueError):
            return json.loads(os.pread(self._notes, NOTE_BYTES, 0).partition(b"\0")[0])
        return None


def _raise(header: dict[str, Any]) -> None:
    """Raise here the exception that a function raised in a worker."""
    for kind in (UsageError, ModelFileError):
        if header["error"] == kind.__name__:
            raise kind(header["text"])
    raise RuntimeError(f"{header['error']} in a worker process: {header['text']}\n{header['trace']}")


_idle: list[Worker] = []  # the most recently used at the end
_lock = threading.Lock()


def prefork(count: int) -> None:
    """Copy this process for later workers, if that is allowed, before it grows.

    A copy costs milliseconds.  A Python process that imports the same modules costs a quarter of a second.
    """
    with _lock, contextlib.suppress(UsageError):  # the next task reports it
        while can_fork() and len(_of_kind(None)) < count:
            _idle.append(Worker(is_copy=True))


def warm_up(module: str) -> None:
    """Start a worker that imports a module, so that it is ready for the first task."""
    with _lock, contextlib.suppress(UsageError):
        if not any(child.is_alive for child in _of_kind(None)):
            _idle.append(Worker())
        _of_kind(None)[-1].preload(module)


def idle_process_ids() -> list[int]:
    """The process ids of the idle workers without affinity."""
    with _lock:
        return [child.popen.pid for child in _of_kind(None) if child.is_alive]


def _of_kind(kind: Hashable) -> list[Worker]:
    return [child for child in _idle if child.affinity == kind]


def acquire_worker(kind: Hashable = None) -> Worker:
    """Return an idle worker of this affinity, or a new one."""
    with _lock:
        for child in reversed(_of_kind(kind)):
            _idle.remove(child)
            if child.is_alive:
                return child
            child.end()
    return Worker(affinity=kind)


def release_worker(child: Worker) -> None:
    """Keep an idle worker; of those with an affinity, only the most recently used."""
    if not child.is_alive:
        child.end()
        return
    with _lock:
        _idle.append(child)
        special = [child for child in _idle if child.affinity is not None]
        for oldest in special[:-_MAX_SPECIAL]:
            _idle.remove(oldest)
            oldest.end()


@atexit.register
def stop() -> None:
    """End the idle workers."""
    with _lock:
        while _idle:
            _idle.pop().end()


def _forget() -> None:
    """Forget the workers of the parent, in a fork of this process."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
