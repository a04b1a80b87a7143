"""Runs a command and writes the processor time of it and of all that it started: `python counted.py FILE COMMAND...`.

Also of what its children leave behind when they end before them: on Linux those become this process's own, and are
waited for.  Elsewhere they go uncounted.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def main(target: Path, command: list[str]) -> int:
    """Write seconds, user and system; the exit code is the command's."""
    import resource

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    process = subprocess.Popen(command)
    code = process.wait()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    target.write_text(str(usage.ru_utime + usage.ru_stime))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
