"""The process in which users' Python implementations run, as whoever asks it sees it.

It is a `surgeon.running.serving`.  The first message brings it the functions, pickled here; the others name one and
bring its inputs.  Of its answers nothing is unpickled.
"""

import atexit
import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from surgeon.errors import UsageError
from surgeon.implementations import Implementation
from surgeon.parcels import search_path
from surgeon.running.pipes import read, write
from surgeon.running.runtime import SessionError
from surgeon.running.serving import Stamp, stamps

LIMIT = 60.0
"""Seconds that one call may take where nothing else is said, and that the start of the process may."""
_GRACE = 5.0  # seconds for a killed process to be noticed, should a child of it hold the pipe open
_MOST_IDLE = 4  # processes that are kept between models: each starts in some tenths of a second

# What a process is to have: its functions by operator, with the file that gives one which is None; where it finds
# modules, and in which folder it works.
_Load = tuple[tuple[tuple[str, bytes | None, str], ...], tuple[str, ...], str]


class _Process:
    """A running process of implementations, and the answers that it has given.

    files: the user's own modules that it has imported, as they were.
    """

    def __init__(self, load: _Load) -> None:
        root = str(Path(__file__).resolve().parents[2])  # wherever this package was found, the worker finds it too
        paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
        self.load = load
        self.is_loaded = False
        self.files: tuple[Stamp, ...] = ()
        self.popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "surgeon.running.serving"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
        )
        self.answers: queue.SimpleQueue[tuple[dict[str, Any], list[Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=_read_all, args=(self.popen.stdout, self.answers), daemon=True).start()

    def ask(
        self, header: dict[str, Any], arrays: Sequence[Any], limit: float
    ) -> tuple[dict[str, Any], list[Any]] | None:
        """Send one request and return the answer; None where the process ends instead.

        Raises TimeoutError where it has not answered within so many seconds, TypeError or ValueError for arrays that do
        not pass.
        """
        late = threading.Event()

        def expire() -> None:
            late.set()
            self.popen.kill()  # which ends a write to it as well, that has no time limit of its own

        alarm = threading.Timer(limit, expire)
        alarm.daemon = True
        alarm.start()
        try:
            if self.popen.stdin is not None:
                write(self.popen.stdin, header, arrays)
            answer = self.answers.get(timeout=limit + _GRACE)
        except (BrokenPipeError, queue.Empty):
            answer = None
        finally:
            alarm.cancel()
        if answer is None and late.is_set():
            raise TimeoutError
        if answer is not None and "files" in answer[0]:
            self.files = tuple((file, time, size) for file, time, size in answer[0]["files"])
        return answer

    def end(self) -> int | None:
        """End it; return its exit code if it had ended by itself, negative for a signal."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(0.2 if self.answers.empty() else 0)
        code = self.popen.poll()
        if code is None:
            self.popen.kill()
            self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        return code


_idle: list[_Process] = []  # for the next worker of the same functions, the last used at the end


def _taken(load: _Load) -> _Process:
    """Return an idle process that has these functions, and modules as they are now, or else a new one."""
    for place, process in enumerate(_idle):
        is_current = process.files == stamps(file for file, _, _ in process.files)
        if process.load == load and is_current and process.popen.poll() is None:
            return _idle.pop(place)
    return _Process(load)


def _left(process: _Process) -> None:
    """Keep a process that waits for requests; the one that has waited longest ends where there are too many."""
    _idle.append(process)
    while len(_idle) > _MOST_IDLE:
        _killed(_idle.pop(0))


def _killed(process: _Process) -> None:
    """End a process without waiting for it to do so by itself."""
    process.popen.kill()
    process.end()


@atexit.register
def _end_idle() -> None:
    while _idle:
        _killed(_idle.pop())


class Worker:
    """A process that runs implementations.  It starts with the first call, and again after one that ended it.

    `limit` is in seconds, per call.  Closing it leaves the process to the next worker of the same functions; the
    process ends with this one.  Raises UsageError for an implementation that cannot be sent to it.
    """

    def __init__(self, implementations: Sequence[Implementation], limit: float | None = None) -> None:
        self._where = {one.name: one.where for one in implementations}
        self._limit = LIMIT if limit is None else limit
        functions = tuple((one.name, one.packed(), str(one.file or "")) for one in implementations)
        beside = [str(one.file.parent) for one in implementations if one.is_given and one.file is not None]
        self._load: _Load = functions, tuple(dict.fromkeys((*beside, *search_path()))), os.getcwd()
        self._process: _Process | None = None
        self._is_waiting = False  # for an answer

    def call(self, op: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[np.ndarray]:
        """Run one implementation, `op` being `domain::Op`, and return its arrays.

        Raises SessionError with one sentence that names the operator and its file, where it raises, ends its process,
        returns no arrays, or takes too long (the last with `missing`: it says nothing about the model).  Raises
        UsageError where it arrives and cannot be unpacked.
        """
        tensors = {name: value for name, value in attributes.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in attributes.items() if name not in tensors}
        header = {"op": op, "inputs": len(inputs), "attributes": plain, "tensors": list(tensors)}
        process = self._started(op)
        try:
            told, arrays = self._asked(process, op, header, [*inputs, *tensors.values()], self._limit)
        except (TypeError, ValueError) as error:
            raise self._failure(op, f"cannot be handed its inputs ({error}): give it tensors of numbers") from error
        if "problem" in told:
            raise UsageError(f"The implementation of {op}{self._where[op]} {told['problem']}.")
        if "error" in told:
            raise self._failure(op, str(told["error"]))
        return arrays

    def _started(self, op: str) -> _Process:
        """The process, with its functions."""
        if self._process is None:
            self._process = _taken(self._load)
        if not self._process.is_loaded:
            functions, path, _ = self._load
            named = [[name, file] for name, _, file in functions]
            blobs = [None if data is None else np.frombuffer(data, np.uint8) for _, data, _ in functions]
            self._asked(self._process, op, {"load": named, "path": path}, blobs, LIMIT)
            self._process.is_loaded = True
        return self._process

    def _asked(
        self, process: _Process, op: str, header: dict[str, Any], arrays: Sequence[Any], limit: float
    ) -> tuple[dict[str, Any], list[Any]]:
        """Ask the process.  Raises SessionError where it ends or takes too long, as `call` does."""
        self._is_waiting = True
        try:
            answer = process.ask(header, arrays, limit)
        except TimeoutError as late:
            self.close()
            what = f"has not answered within {limit:g} s: make it faster"
            raise self._failure(op, what, missing=True) from late
        if answer is None:
            raise self._failure(op, _ending(self.close()))
        self._is_waiting = False
        return answer

    def close(self) -> int | None:
        """Part with the process; return its exit code if it had ended by itself, negative for a signal."""
        process, self._process = self._process, None
        was_waiting, self._is_waiting = self._is_waiting, False
        if process is None:
            return None
        if was_waiting:  # what it would still answer is for nobody
            return process.end()
        _left(process)
        return None

    def _failure(self, op: str, what: str, *, missing: bool = False) -> SessionError:
        return SessionError(f"The implementation of {op}{self._where.get(op, '')} {what}.", missing=missing)


def _ending(code: int | None) -> str:
    """Say how a process ended that should not have."""
    if code is not None and code < 0:
        return f"crashed ({signal.Signals(-code).name}): correct it"
    how = "" if code is None else f" (exit code {code})"
    return f"ended its process{how}: let it return its result"


def _read_all(pipe: IO[bytes], answers: queue.SimpleQueue[Any]) -> None:
    """Hand every message on, and None at the end."""
    with contextlib.suppress(OSError, ValueError):
        while (answer := read(pipe)) is not None:
            answers.put(answer)
    answers.put(None)
