"""A process that works for another: it calls the functions that it is named, and ends when nobody asks any more.

Run by its path, with the number of an open file in which it notes what it does, or none.  A request on standard input
(see `pipes`) names a function, and brings its argument pickled: whoever started this process is trusted.  An answer is
JSON and arrays of numbers: what a model has done to this process stays in it.

    {"function": "module:name", "seconds": 10.0, "memory": 1 << 32}    and one array: the argument, pickled
    {"answer": {...}, "seconds": 0.1} and arrays | {"error": "MemoryError", "text": "...", "trace": "..."}

A function takes the argument, and one to note what it is at; it returns what JSON can hold, and arrays.  It is given
`seconds` of processor time, where the platform can count them, and then ended by SIGPROF.
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

NOTE_BYTES = 4096  # bytes of what is noted
# The C library of most Linux systems keeps for the next run what one run lets go: it would give large blocks back, and
# of a proof that took 9 s of processor time 3 s went into having the same pages again.  No other library reads these;
# a child without work gives all back.  In the environment of a process that is started, or as mallopt takes them.
MALLOC_SETTINGS = {"MALLOC_MMAP_MAX_": 0, "MALLOC_TRIM_THRESHOLD_": (1 << 31) - 1, "MALLOC_TOP_PAD_": 1 << 24}
_MALLOPT = {"MALLOC_MMAP_MAX_": -4, "MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_TOP_PAD_": -2}  # glibc's malloc.h
# Seconds between two looks at whether the parent lives, should somebody else hold the pipe open; and seconds without
# work until what is kept for it is given back.
_PULSE = 1.0
_PACKAGE = "surgeon"

ReportProgress = Callable[[Any], None]
Function = Callable[[Any, ReportProgress], tuple[dict[str, Any], Sequence[Any]]]


def main(arguments: Sequence[str]) -> int:
    """Be a process of its own."""
    _postpone_package()
    return serve(arguments)


def serve(arguments: Sequence[str]) -> int:
    """Answer requests until the input ends.  What is printed goes to standard error."""
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
            release_memory()  # who works on has its pages at hand, who waits has none
            header, arrays = inbox.get()
        if "prepare" in header:
            importlib.import_module(header["prepare"])
        else:
            _send(answers, *_answer(header, arrays, note))


def keep_memory() -> None:
    """Settle the C library of a process that runs already as KEPT says."""
    with contextlib.suppress(OSError, AttributeError):  # a library without that call
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in MALLOC_SETTINGS.items():
            mallopt(_MALLOPT[name], value)


def release_memory() -> None:
    """Give back the memory that the C library keeps for the next run, where it has a call for that."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # not everywhere, and no name on Windows
        ctypes.CDLL(None).malloc_trim(0)


def _settle_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all: the parent says what it means
    if hasattr(signal, "SIGPROF"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with contextlib.suppress(ImportError):  # on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _postpone_package() -> None:
    """Run the package's own file only when one of its public names is asked for: most work needs few of its modules."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no package {_PACKAGE}")
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
    """Hand on what is asked, and end this process, also in the middle of its work, when nobody asks any more."""
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
    """Notes in a file that the parent reads when this process has ended; the last one counts."""
    page = mmap.mmap(file, NOTE_BYTES)

    def note(value: Any) -> None:
        data = json.dumps(value).encode()
        if len(data) < NOTE_BYTES:
            page[: len(data) + 1] = data + b"\0"

    return note


def _nothing(_: Any) -> None:
    """Note nothing, where the parent cannot read it."""


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
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - told to whoever asked
        return {"error": type(error).__name__, "text": str(error), "trace": traceback.format_exc()}, []
    return {"answer": answer, "seconds": seconds}, made


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """End this process by SIGPROF when it has worked so long, all its threads together."""
    reset_cpu_limit(seconds)
    try:
        yield
    finally:
        reset_cpu_limit(0.0)


def reset_cpu_limit(seconds: float) -> None:
    """Let this process work so many seconds from now on, 0 for any time: for a task of several steps, each its own."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _allow_memory(size: int) -> None:
    """Let this process have so many bytes of memory of its own."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    with contextlib.suppress(ValueError, OSError):  # a system that has the call and not the limit, as macOS may
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (size if hard < 0 else min(size, hard), hard))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
