"""A process that kills this one if it does not end after a signal.

Python runs signal handlers between two of its instructions.  C code that does not return, such as onnx's shape
inference on a hostile model, delays them.  The C part of a handler still writes the signal's number to a pipe; the
process at its other end waits a moment and then kills the program.
"""

import os
import select
import signal
import time
import warnings
from typing import NoReturn

from surgeon.runtime.processes.kill import kill_descendants

GRACE = 1.5
"""Seconds that a program has for its cleanup after the signal."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def watch() -> None:
    """Start the watchdog of this process, on systems with fork.  Call it early in the main thread."""
    if not hasattr(os, "fork"):
        return
    receiver, sender = os.pipe()
    program = os.getpid()
    with warnings.catch_warnings():  # Python 3.12 warns about threads
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            pid = os.fork()
        except OSError:  # fork failed: run without a watchdog
            os.close(receiver)
            os.close(sender)
            return
    if not pid:
        _guard(program, receiver, sender)
    os.close(receiver)
    os.set_blocking(sender, False)
    signal.set_wakeup_fd(sender, warn_on_full_buffer=False)


def _guard(program: int, receiver: int, sender: int) -> NoReturn:
    """Run as the watchdog; it ends with the program, when the other end of the pipe closes."""
    try:
        for number in SIGNALS:  # terminals and shells send them to the whole process group
            signal.signal(number, signal.SIG_IGN)
        os.close(sender)
        for stream in (0, 1):  # readers of the program's output see its end
            os.close(stream)
        while received := os.read(receiver, 64):
            asked = [number for number in SIGNALS if number in received]
            if asked:
                _end(program, receiver, asked[0])
    finally:
        os._exit(0)


def _end(program: int, receiver: int, number: int) -> None:
    until = time.monotonic() + GRACE
    while (left := until - time.monotonic()) > 0:
        if select.select([receiver], [], [], left)[0] and not os.read(receiver, 64):
            return
    if os.getppid() == program:
        os.write(2, f"Ended by {signal.Signals(number).name}.\n".encode())
        kill_descendants(program)
        os.kill(program, signal.SIGKILL)
