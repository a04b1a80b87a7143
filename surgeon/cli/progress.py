"""A sign of life on the terminal for work that takes long; rich is loaded only when it does."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surgeon.text import format_count

if TYPE_CHECKING:
    from rich.status import Status

REWRITE = "rewrite"
DELAY = 0.5  # seconds of work before anything is shown
PHASES = {
    "prove": "proving {}",
    "check": "checking what was written",
    "bisect": "looking for the sites at fault among {}",
}
STRIDE = 64  # rewrites between two looks at the display, as thousands are done in a second; of proofs each is shown


class Spinner:
    """A line on stderr that appears after half a second and goes when the work is done.  unit: what is counted."""

    def __init__(self, unit: str = REWRITE) -> None:
        self._unit = unit
        self._text = "working"
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._done = False
        self._timer = threading.Timer(DELAY, self._show)
        self._timer.daemon = True

    def __enter__(self) -> "Spinner":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._done = True
            if self._status is not None:
                self._status.stop()

    def update(self, what: str, count: int) -> None:
        """Say how far the rewrite has come.  what: a rule, with the rewrites so far, or a phase, with its sites."""
        if what in PHASES:
            self._text = PHASES[what].format(format_count(count, 'site'))
        else:
            self._text = f"{what}: {format_count(count, self._unit)} so far"
        is_due = what in PHASES or self._unit != REWRITE or count % STRIDE == 0
        if self._status is not None and is_due:
            self._status.update(self._text)

    def wait(self) -> None:
        """Wait until the line is there or the work is done."""
        self._timer.join()

    def _show(self) -> None:
        from rich.console import Console
        from rich.status import Status

        with self._lock:
            if not self._done:
                self._status = Status(self._text, console=Console(stderr=True, highlight=False))
                self._status.start()


@contextmanager
def progress(quiet: bool, unit: str = REWRITE) -> Iterator[Callable[[str, int], None] | None]:
    """A callback that shows progress on a terminal once the work takes long.  unit: what it counts."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with Spinner(unit) as spinner:
        yield spinner.update
