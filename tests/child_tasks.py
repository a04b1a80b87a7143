"""What children are asked to do in tests."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from surgeon.errors import ModelFileError, UsageError


def double(argument, note):
    """Numbers and arrays come back."""
    return {"number": 2 * argument["number"], "pid": os.getpid()}, [2 * argument["array"]]


def spin(argument, note):
    """Never ends, and takes all the processor time that it gets."""
    note({"at": argument})
    number = 0
    while True:
        number += 1


def sleep(argument, note):
    """Takes no processor time."""
    note({"at": argument})
    time.sleep(argument)
    return {"pid": os.getpid()}, []


def meet(argument, note):
    """Waits until as many are here."""
    folder, count = Path(argument[0]), argument[1]
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < count:
        time.sleep(0.01)
    return {"pid": os.getpid()}, []


def work(argument, note):
    """Takes some processor time."""
    start = time.process_time()
    while time.process_time() - start < argument:
        pass
    return {"pid": os.getpid()}, []


def hog(argument, note):
    """Wants more memory than any machine has."""
    note({"at": argument})
    kept = []
    while True:
        kept.append(np.ones(1 << 27, np.uint8))


def crash(argument, note):
    """Ends its process by a signal."""
    note({"at": argument})
    os.kill(os.getpid(), argument)
    time.sleep(10)


def segfault(argument, note):
    """Ends its process as a library does that is not there."""
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(argument, note):
    """Ends its process by itself."""
    os._exit(argument)


def babble(argument, note):
    """Writes what is no message where answers go."""
    for handle in range(3, 20):
        try:
            os.write(handle, b"\x10\0\0\0\0\0\0\0no JSON at all !!")
        except OSError:
            continue
    os._exit(0)


def misuse(argument, note):
    """Finds a fault of the user's."""
    raise UsageError(argument)


def misread(argument, note):
    """Finds a fault of the user's file."""
    raise ModelFileError(argument)


def fail(argument, note):
    """Has a fault of our own."""
    raise LookupError(argument)


def public_names(argument, note):
    """What a user's file that runs in a child sees of the package."""
    import surgeon

    return {"all": len(surgeon.__all__), "name": surgeon.rule.__name__}, []


def parse(argument, note):
    """Ends its process as a parser may, at the second node."""
    note({"stage": "parse", "node": 1})
    os.kill(os.getpid(), signal.SIGSEGV)


def open_files(argument, note):
    """The open files of this process, each once."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return sorted({os.readlink(link) for link in links if os.path.lexists(link)}), []


def signals(argument, note):
    """What signals do here that end a process."""
    return {name: str(signal.getsignal(getattr(signal, name)).name) for name in ("SIGINT", "SIGTERM", "SIGHUP")}, []
