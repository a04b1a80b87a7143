"""A process that ends this one when a signal asked it to end and it does not.

Python runs its own signal handlers between two of its instructions, so C code that does not return, as onnx's shape
inference and inliner on a hostile model, keeps a program from seeing SIGTERM.  The C half of a handler still writes
the signal's number to a pipe; the process at its other end waits a moment and then kills the program.
"""

import os
import select
import signal
import time
import warnings
from typing import NoReturn

from surgeon.runtime.processes.kill import kill_descendants

GRACE = 1.5
"""Seconds that a program has to clean up after the signal."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def watch() -> None:
    """Start the watchdog of this process, where the system can copy a process.  Call it in the main thread, early."""
    if not hasattr(os, "fork"):
        return
    receiver, sender = os.pipe()
    program = os.getpid()
    with warnings.catch_warnings():  # Python 3.12 warns where there are threads
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            pid = os.fork()
        except OSError:  # no process can be started: the program runs without a watchdog
            os.close(receiver)
            os.close(sender)
            return
    if not pid:
        _guard(program, receiver, sender)
    os.close(receiver)
    os.set_blocking(sender, False)
    signal.set_wakeup_fd(sender, warn_on_full_buffer=False)


def _guard(program: int, receiver: int, sender: int) -> NoReturn:
    """Be the watchdog: it ends with the program, when the last copy of the pipe's other end closes."""
    try:
        for number in SIGNALS:  # a terminal, or a shell that ends a job, sends them to the whole group
            signal.signal(number, signal.SIG_IGN)
        os.close(sender)
        for stream in (0, 1):  # whoever reads the program's output sees its end
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
