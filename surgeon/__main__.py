"""The program: `surgeon`, or `python -m surgeon`, which imports nothing from the working directory."""

import gc
import os
import sys


def _leave_folder() -> None:
    """Take the working directory, which `python -m` puts first, off Python's path: an onnx.py there is not ours."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it is gone, and Python has not put it there
        return
    if not sys.flags.safe_path and sys.path[:1] == [here]:
        del sys.path[0]


def main() -> None:
    """Run the command line, and end the process."""
    gc.disable()  # a short life of many small objects, and no garbage among them
    from surgeon.console.cli import main as surgeon  # not at the top: all that it imports is made without the collector

    surgeon(prog_name="surgeon")


if __name__ == "__main__":
    _leave_folder()
    main()
