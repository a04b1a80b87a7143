"""`python -m surgeon` is `surgeon`: nothing is imported from the working directory."""

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


if __name__ == "__main__":
    _leave_folder()

    from surgeon.console.cli import main

    main(prog_name="surgeon")
