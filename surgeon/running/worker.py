"""The process in which users' Python implementations run, and both ends of the pipes to it.

`python -m surgeon.running.worker FILE...` loads the files and answers requests on its standard input.  A message is a
header in JSON, led by its length (8 bytes, little-endian), and behind it the raw bytes of the arrays that the header
lists.  Nothing is unpickled.
"""

import atexit
import contextlib
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np

from surgeon.errors import UsageError
from surgeon.implementations import Implementation, load
from surgeon.running.runtime import SessionError

LIMIT = 60.0
"""Seconds that one call may take, the start of the process included."""
_PULSE = 1.0  # seconds between two looks of the worker at whether its parent lives
_GRACE = 5.0  # seconds for a killed process to be noticed, should a child of it hold the pipe open
_MOST_IDLE = 4  # processes that are kept between models: each starts in some tenths of a second
_LENGTH = struct.Struct("<Q")
_PLAIN_KINDS = "biufc"  # numpy's own numbers; ml_dtypes' are known by their module


class _Process:
    """A running process of implementations, and the answers that it has given."""

    def __init__(self, files: Sequence[str]) -> None:
        root = str(Path(__file__).resolve().parents[2])  # wherever this package was found, the worker finds it too
        paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
        self.versions = _versions(files)
        self.popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "surgeon.running.worker", *files],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
        )
        self.answers: queue.SimpleQueue[tuple[dict[str, Any], list[Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=_read_all, args=(self.popen.stdout, self.answers), daemon=True).start()

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


_idle: list[_Process] = []  # for the next worker of the same files, the last used at the end


def _versions(files: Sequence[str]) -> tuple[tuple[str, int, int], ...]:
    """Files with their time and size; both 0 for one that is gone."""
    found = [(file, os.stat(file) if os.path.exists(file) else None) for file in files]
    return tuple((file, stat.st_mtime_ns if stat else 0, stat.st_size if stat else 0) for file, stat in found)


def _taken(files: Sequence[str]) -> _Process:
    """Return an idle process of these files as they are now, or else a new one."""
    versions = _versions(files)
    for place, process in enumerate(_idle):
        if process.versions == versions and process.popen.poll() is None:
            return _idle.pop(place)
    return _Process(files)


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

    `limit` is in seconds, per call.  Closing it leaves the process to the next worker of the same files; the process
    ends with this one.
    """

    def __init__(self, implementations: Sequence[Implementation], limit: float | None = None) -> None:
        self._files = {one.name: one.file for one in implementations}
        self._limit = LIMIT if limit is None else limit
        self._process: _Process | None = None
        self._is_waiting = False  # for an answer

    def call(self, op: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[np.ndarray]:
        """Run one implementation, `op` being `domain::Op`, and return its arrays.

        Raises SessionError with one sentence that names the operator and its file, where it raises, ends its process,
        returns no arrays, or takes too long (the last with `missing`: it says nothing about the model).
        """
        tensors = {name: value for name, value in attributes.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in attributes.items() if name not in tensors}
        header = {"op": op, "file": str(self._files[op]), "inputs": len(inputs), "attributes": plain}
        header["tensors"] = list(tensors)
        if self._process is None:
            self._process = _taken([*dict.fromkeys(str(file) for file in self._files.values() if file is not None)])
        process, late = self._process, threading.Event()

        def expire() -> None:
            late.set()
            process.popen.kill()  # which ends a write to it as well, that has no time limit of its own

        alarm = threading.Timer(self._limit, expire)
        alarm.daemon = True
        alarm.start()
        self._is_waiting = True
        try:
            if process.popen.stdin is not None:
                _write(process.popen.stdin, header, [*inputs, *tensors.values()])
            answer = process.answers.get(timeout=self._limit + _GRACE)
        except (BrokenPipeError, queue.Empty):
            answer = None
        except (TypeError, ValueError) as error:
            raise self._failure(op, f"cannot be handed its inputs ({error}): give it tensors of numbers") from error
        finally:
            alarm.cancel()
        if answer is None:
            code = self.close()
            what = f"has not answered within {self._limit:g} s: make it faster" if late.is_set() else _ending(code)
            raise self._failure(op, what, missing=late.is_set())
        self._is_waiting = False
        told, arrays = answer
        if "error" in told:
            raise self._failure(op, str(told["error"]))
        return arrays

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
        return SessionError(f"The implementation of {op} in '{self._files.get(op)}' {what}.", missing=missing)


def _ending(code: int | None) -> str:
    """Say how a process ended that should not have."""
    if code is not None and code < 0:
        return f"crashed ({signal.Signals(-code).name}): correct it"
    how = "" if code is None else f" (exit code {code})"
    return f"ended its process{how}: let it return its result"


def _read_all(pipe: IO[bytes], answers: queue.SimpleQueue[Any]) -> None:
    """Hand every message on, and None at the end."""
    with contextlib.suppress(OSError, ValueError):
        while (answer := _read(pipe)) is not None:
            answers.put(answer)
    answers.put(None)


def _write(pipe: IO[bytes], header: dict[str, Any], arrays: Sequence[Any]) -> None:
    """Write one message; None among the arrays stays None.  Raises TypeError for an array of no numbers."""
    packed = [None if array is None else np.ascontiguousarray(array).reshape(np.shape(array)) for array in arrays]
    listed = [None if array is None else [_dtype_name(array.dtype), list(array.shape)] for array in packed]
    head = json.dumps({**header, "arrays": listed}).encode()
    pipe.write(_LENGTH.pack(len(head)) + head)
    for array in packed:
        if array is not None:
            pipe.write(array.tobytes())
    pipe.flush()


def _read(pipe: IO[bytes]) -> tuple[dict[str, Any], list[Any]] | None:
    """Read one message; None at the end of the pipe, also in the middle of one."""
    start = pipe.read(_LENGTH.size)
    if len(start) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(start)
    head = pipe.read(length)
    if len(head) < length:
        return None
    header = json.loads(head)
    arrays: list[Any] = []
    for item in header["arrays"]:
        if item is None:
            arrays.append(None)
            continue
        dtype, shape = _dtype(item[0]), tuple(item[1])
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        data = pipe.read(size)
        if len(data) < size:
            return None
        arrays.append(np.frombuffer(bytearray(data), dtype=dtype).reshape(shape))
    return header, arrays


def _is_numeric(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in _PLAIN_KINDS or dtype.type.__module__ == ml_dtypes.__name__


def _dtype_name(dtype: np.dtype[Any]) -> str:
    if not _is_numeric(dtype):
        raise TypeError(f"no tensor of {dtype.name}")
    return dtype.name


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def main(files: Sequence[str]) -> int:
    """Answer requests until the input ends.  What implementations print goes to standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()
    problem = ""
    known: dict[tuple[str, str], Implementation] = {}  # by file and name: several files may implement one operator
    try:
        known = {(file, one.name): one for file in files for one in load(file)}
    except UsageError as error:
        problem = f"cannot be loaded: {str(error).rstrip('.')}"
    while (request := _read(requests)) is not None:
        header, arrays = request
        told, results = ({"error": problem}, []) if problem else _answer(known, header, arrays)
        _write(answers, told, results)
    return 0


def _die_with(parent: int) -> None:
    """End this process when its parent has ended, also in the middle of a call."""
    while os.getppid() == parent:
        time.sleep(_PULSE)
    os._exit(1)


def _answer(
    known: Mapping[tuple[str, str], Implementation], header: Mapping[str, Any], arrays: list[Any]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Run one implementation; return the header of the answer, and the arrays."""
    implementation = known.get((header["file"], header["op"]))
    if implementation is None:
        return {"error": "is not registered when its file is run: register it at the file's top level"}, []
    inputs, tensors = arrays[: header["inputs"]], arrays[header["inputs"] :]
    settings = {**header["attributes"], **dict(zip(header["tensors"], tensors, strict=True))}
    return _result(implementation, inputs, settings)


def answered(one: Implementation, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[np.ndarray]:
    """Run an implementation in this process, and return its arrays.  Raises SessionError as `Worker.call` does."""
    told, arrays = _result(one, inputs, attributes)
    if "error" in told:
        raise SessionError(f"The implementation of {one.name}{one.where} {told['error']}.")
    return arrays


def _result(
    implementation: Implementation, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Call a function; return the header of the answer, and the arrays."""
    try:
        with np.errstate(all="ignore"):
            result = implementation.function(*inputs, **attributes)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - told to whoever asked
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        where = f" at line {lines[-1]}" if lines else ""
        text = " ".join(str(error).split())
        return {"error": f"raised {type(error).__name__}{where} ({text}): correct it"}, []
    results = result if isinstance(result, tuple | list) else (result,)
    for one in results:
        number = isinstance(one, np.ndarray | np.generic)
        if not number or not _is_numeric(one.dtype):
            kind = f"an array of {one.dtype.name}" if number else f"a value of type {type(one).__name__}"
            return {"error": f"returned {kind}: let it return a numpy array of numbers, or a tuple of them"}, []
    return {}, [np.asarray(one) for one in results]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
