"""What a person has on the screen when a call fails, or a command ends: for notebooks, which show just that."""

import contextlib
import io
import logging
import os
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

LONGEST = 120
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def message(call: Callable[..., Any], *args: Any, about: str = "", **options: Any) -> None:
    """Run a call that fails, and print the first line of its message, or the first that speaks of `about`.

    Of a long line only what follows is printed, from `about` on: before it stand places in somebody's source.  What
    the call prints, warns and logs on the way is left out.  Raises ValueError where it does not fail, or no line of the
    message speaks of `about`: then the notebook tells a story that is no longer true.
    """
    try:
        with quiet():
            call(*args, **options)
    except Exception as error:  # whatever the call raises is what is shown
        lines = [line for line in COLOURS.sub("", str(error)).splitlines() if line.strip() and about in line]
        if not lines:
            raise ValueError(f"The message does not speak of {about!r}: {error}") from error
        line = lines[0].strip()
        start = line.index(about) if len(line) > LONGEST else 0
        print(f"… {line[start:]}" if start else line)
        return
    raise ValueError("The call does not fail any more.")


def command(line: str) -> None:
    """Run a command of surgeon as at a shell's prompt: print it, what it prints, and the exit code if that is not 0."""
    first, *words = shlex.split(line)
    if first != "surgeon":
        raise ValueError(f"Only commands of surgeon are run, not {first!r}.")
    plain = {name: value for name, value in os.environ.items() if not name.endswith("COLOR")} | {"NO_COLOR": "1"}
    done = subprocess.run([sys.executable, "-m", first, *words], capture_output=True, text=True, check=False, env=plain)
    print(f"$ {line}", done.stdout + done.stderr, sep="\n", end="")
    if done.returncode:
        print(f"(exit code {done.returncode})")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drop what is printed, warned and logged in a block, also by libraries that write to the terminal themselves."""
    disabled = logging.root.manager.disable
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        stack.callback(logging.disable, disabled)
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        for number in (1, 2):
            stack.enter_context(_closed(number))
        yield


@contextlib.contextmanager
def _closed(number: int) -> Iterator[None]:
    """Send what native code writes to a descriptor nowhere."""
    (sys.stdout if number == 1 else sys.stderr).flush()
    kept = os.dup(number)
    with tempfile.TemporaryFile() as nowhere:
        os.dup2(nowhere.fileno(), number)
        try:
            yield
        finally:
            os.dup2(kept, number)
            os.close(kept)
