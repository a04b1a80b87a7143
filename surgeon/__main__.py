"""The program: `surgeon`, or `python -m surgeon`, which imports nothing from the working directory."""

import gc
import os
import sys


def _leave_folder() -> None:
    """Remove the working directory, which `python -m` adds, from Python's path: an onnx.py there is not ours."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was deleted, so Python did not add it
        return
    if not sys.flags.safe_path and sys.path[:1] == [here]:
        del sys.path[0]


def _open_streams() -> None:
    """Open standard streams that the caller closed on the null device, so that no file takes their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # uses the lowest free number
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def main() -> None:
    """Run the command line, and end the process."""
    _open_streams()
    gc.disable()  # a short process with many small objects and little garbage
    from surgeon.cli.app import main as surgeon  # not at the top: imports run without the collector

    surgeon(prog_name="surgeon")


if __name__ == "__main__":
    _leave_folder()
    main()
