"""Progress on a terminal: of long work, and of a fleet of models; rich is imported only when it is shown."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from surgeon.display.terminal.sanitise import sanitise
from surgeon.text import format_count

if TYPE_CHECKING:
    from rich.status import Status

    from surgeon.automation.fleet.fleet_row import FleetRow

REWRITE = "rewrite"
DELAY = 0.5  # seconds before the spinner is shown
PHASES = {
    "prove": "proving {}",
    "check": "checking what was written",
    "bisect": "looking for the sites at fault among {}",
    "measure": "measuring",
    "try": "writing and proving another form",
}
STRIDE = 64  # rewrites between two updates, as there are thousands per second; every proof is an update


class Spinner:
    """A line on stderr that appears after half a second of work and disappears at its end.  unit: of the counts."""

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
        """Show progress.  what: a rule, with its rewrites so far, or a phase, with its sites."""
        if what in PHASES:
            self._text = PHASES[what].format(format_count(count, "site"))
        else:
            self._text = f"{what}: {format_count(count, self._unit)} so far"
        is_due = what in PHASES or self._unit != REWRITE or count % STRIDE == 0
        if self._status is not None and is_due:
            self._status.update(self._text)

    def wait(self) -> None:
        """Wait until the line is shown or the work is done."""
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
    """A callback that shows progress on a terminal if the work takes long.  unit: of the counts."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with Spinner(unit) as spinner:
        yield spinner.update


class FleetProgress:
    """A line on the terminal: finished models, their outcomes, and the running models with their times."""

    def __init__(self, quiet: bool) -> None:
        self._shows = not quiet and sys.stderr.isatty()
        self._status: Any = None
        self._started: dict[str, float] = {}
        self._outcomes: Counter[str] = Counter()
        self._done = self._total = 0

    def __enter__(self) -> "FleetProgress":
        if self._shows:
            from rich.console import Console
            from rich.status import Status

            self._status = Status(self, console=Console(stderr=True, highlight=False))
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def dashboard(self, address: str) -> None:
        """Print the address of Dask's dashboard."""
        click.echo(f"dashboard {sanitise(address)}", err=True)

    def begins(self, model: str) -> None:
        """Record the start of a model."""
        self._started[model] = time.monotonic()

    def show_row(self, row: "FleetRow", done: int, total: int) -> None:
        """Record the result of a model."""
        self._started.pop(row.model, None)
        self._done, self._total = done, total
        self._outcomes[row.outcome] += 1

    def __rich__(self) -> str:
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in self._outcomes.most_common())
        now = time.monotonic()
        longest = sorted(self._started.items(), key=lambda item: item[1])[:3]
        at = "; ".join(f"{sanitise(name)} for {now - start:.0f} s" for name, start in longest)
        count = f"{self._done:,} of {self._total:,} models"
        return count + (f": {outcomes}" if outcomes else "") + (f"; at {at}" if at else "")
