"""The process of a worker: it calls functions by name, and ends when its parent does.

It is started by its path, with the number of an open file for progress notes, if any.  A request on standard input (see
`pipe_protocol`) contains the name of a function and its pickled argument, because the parent is trusted.  An answer
contains only JSON and arrays of numbers, so damage that a model does to this process cannot spread.

    {"function": "module:name", "seconds": 10.0, "memory": 1 << 32}    and one array: the argument, pickled
    {"answer": {...}, "seconds": 0.1} and arrays | {"error": "MemoryError", "text": "...", "trace": "..."}

A function takes its argument and a function that notes progress.  It returns JSON values and arrays.  After `seconds`
of processor time, SIGPROF ends the process, if the platform supports it.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import json
import mmap
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

NOTE_BYTES = 4096  # size of the file for notes
# Settings that let glibc keep freed memory for the next run.  By default it returns large blocks to the system, and
# mapping them again took 3 s of a proof of 9 s.  An idle worker returns its memory.  The settings are environment
# variables of a new process, or arguments of mallopt.
MALLOC_SETTINGS = {"MALLOC_MMAP_MAX_": 0, "MALLOC_TRIM_THRESHOLD_": (1 << 31) - 1, "MALLOC_TOP_PAD_": 1 << 24}
_MALLOPT = {"MALLOC_MMAP_MAX_": -4, "MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_TOP_PAD_": -2}  # glibc's malloc.h
# Seconds between checks whether the parent is alive, in case another process holds the pipe open; also seconds without
# work until memory is returned.
_PULSE = 1.0
_PACKAGE = "surgeon"

ReportProgress = Callable[[Any], None]
Function = Callable[[Any, ReportProgress], tuple[dict[str, Any], Sequence[Any]]]


def main(arguments: Sequence[str]) -> int:
    """Run as a separate process."""
    _postpone_package()
    return serve(arguments)


def serve(arguments: Sequence[str]) -> int:
    """Process requests until the input ends.  Printed text goes to standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    _settle_signals()
    inbox: queue.SimpleQueue[tuple[dict[str, Any], list[Any]]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, inbox), daemon=True).start()
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()
    note = _notebook(int(arguments[0])) if arguments else _nothing
    while True:
        try:
            header, arrays = inbox.get(timeout=_PULSE)
        except queue.Empty:
            release_memory()  # only a busy worker keeps its pages
            header, arrays = inbox.get()
        if "prepare" in header:
            importlib.import_module(header["prepare"])
        else:
            _send(answers, *_answer(header, arrays, note))


def keep_memory() -> None:
    """Apply MALLOC_SETTINGS to the C library of a running process."""
    with contextlib.suppress(OSError, AttributeError):  # a library without that call
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in MALLOC_SETTINGS.items():
            mallopt(_MALLOPT[name], value)


def release_memory() -> None:
    """Return memory that the C library keeps for the next run, if the library supports it."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # not everywhere, and no name on Windows
        ctypes.CDLL(None).malloc_trim(0)


def _settle_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the parent handles it
    if hasattr(signal, "SIGPROF"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with contextlib.suppress(ImportError):  # on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _postpone_package() -> None:
    """Run surgeon's `__init__` only if one of its public names is used, because most tasks need few modules."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.loader is None:
        raise ImportError(f"package {_PACKAGE} not found")
    package, loader = importlib.util.module_from_spec(spec), spec.loader

    def load(name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        del package.__getattr__
        loader.exec_module(package)
        return getattr(package, name)

    package.__getattr__ = load  # type: ignore[method-assign]
    sys.modules[_PACKAGE] = package


def _receive(requests: IO[bytes], inbox: "queue.SimpleQueue[tuple[dict[str, Any], list[Any]]]") -> None:
    """Queue requests; end this process when the parent has ended, even in the middle of a task."""
    from surgeon.runtime.processes.pipe_protocol import read_message

    while (request := read_message(requests)) is not None:
        inbox.put(request)
    os._exit(0)


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PULSE)
    os._exit(0)


def _send(answers: IO[bytes], header: dict[str, Any], arrays: Sequence[Any]) -> None:
    from surgeon.runtime.processes.pipe_protocol import write_message

    write_message(answers, header, arrays)


def _notebook(file: int) -> ReportProgress:
    """Return a function that notes progress in a file, which the parent reads after this process has ended.

    Each note replaces the previous one.
    """
    page = mmap.mmap(file, NOTE_BYTES)

    def note(value: Any) -> None:
        data = json.dumps(value).encode()
        if len(data) < NOTE_BYTES:
            page[: len(data) + 1] = data + b"\0"

    return note


def _nothing(_: Any) -> None:
    """Ignore progress, because the parent cannot read notes."""


def _answer(header: dict[str, Any], arrays: list[Any], note: ReportProgress) -> tuple[dict[str, Any], Sequence[Any]]:
    """Call one function."""
    try:
        note({})
        _allow_memory(header["memory"])
        module, _, name = header["function"].partition(":")
        function: Function = getattr(importlib.import_module(module), name)
        argument = pickle.loads(arrays[0].data)
        start = time.process_time()
        with _alarm(header["seconds"]):
            answer, made = function(argument, note)
        seconds = time.process_time() - start
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - reported to the parent
        return {"error": type(error).__name__, "text": str(error), "trace": traceback.format_exc()}, []
    return {"answer": answer, "seconds": seconds}, made


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """End this process with SIGPROF after these seconds of processor time of all its threads."""
    reset_cpu_limit(seconds)
    try:
        yield
    finally:
        reset_cpu_limit(0.0)


def reset_cpu_limit(seconds: float) -> None:
    """Allow these seconds of processor time from now on, 0 for no limit; for tasks with several steps."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _allow_memory(size: int) -> None:
    """Limit the bytes of memory of this process."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    with contextlib.suppress(ValueError, OSError):  # a system that has the call but not the limit, like macOS
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (size if hard < 0 else min(size, hard), hard))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
