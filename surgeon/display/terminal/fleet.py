"""The terminal output of a fleet: a progress line, and a summary."""

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, TextIO

import click

from surgeon.display.terminal.console import OUTCOME_STYLES, labelled_line_printer, make_console
from surgeon.display.terminal.sanitise import sanitise
from surgeon.text import and_more, join_first, seconds_text

if TYPE_CHECKING:
    from surgeon.automation.fleet.fleet import Fleet
    from surgeon.automation.fleet.fleet_row import FleetRow

MAX_LISTED = 20  # failed models that are listed
MAX_STALE = 5  # results of earlier runs that are listed
_FAILURE_STYLES = {
    "refused": ("REFUSED", "bold white on red"),
    "unexpected": ("UNEXPECTED", "bold white on red"),
    "late": ("LATE", "bold white on red"),
    "memory": ("OUT OF MEMORY", "bold white on red"),
    "crashed": ("CRASHED", "bold white on red"),
    "lost": ("LOST", "bold white on red"),
    "unwritten": ("NOT WRITTEN", "bold white on red"),
}


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


def print_fleet(fleet: "Fleet", stream: TextIO) -> None:
    """Print the summary of a fleet: outcomes, rules, failed models, changes since the baseline."""
    line = labelled_line_printer(make_console(stream))
    outcomes = [f"{count:,} {outcome}" for outcome, count in fleet.outcomes.items()]
    line("models", f" {len(fleet):,}: {', '.join(outcomes) or 'none done'}")
    if fleet.kept:
        line("kept", f" {fleet.kept:,} were done already")
    fired = ", ".join(f"{rule} {count:,}" for rule, count in fleet.counts.items())
    line("rules", f" {fired or 'nothing fired'}")
    for shown, row in enumerate(fleet.wrong):
        if shown == MAX_LISTED:
            line("", " and more: see --rows")
            break
        name, style = {**OUTCOME_STYLES, **_FAILURE_STYLES}[row.outcome]
        line("", " ", (name, style), f" {sanitise(row.model)}: {sanitise(row.why)}")
    noted = [row for row in fleet if row.why and not row.is_wrong and row.outcome != "unproved"]
    if noted:
        line(
            "note",
            f" {sanitise(noted[0].model)}: {sanitise(noted[0].why)}{and_more(len(noted) - 1, 'models have a note')}",
        )
    stale = [sanitise(row.target) for row in fleet.stale]
    if stale:
        advice = "not made by this run: remove such files, or mend the models and run again."
        line("", " ", ("STALE", "bold white on red"), f" {join_first(stale, MAX_STALE)}: {advice}")
    for change in fleet.changes[:MAX_LISTED]:
        title = "worse" if change.is_regression else "other"
        export = "" if change.same_graph else " (the model itself is another)"
        line(title, f" {sanitise(change.model)}: {sanitise(change.what)}{export}")
    if len(fleet.changes) > MAX_LISTED:
        line("", f"{and_more(len(fleet.changes) - MAX_LISTED, 'changes')}: see --report")
    news = Counter("worse" if change.is_regression else "otherwise" for change in fleet.since)
    if news:
        line("since", f" the last run: {', '.join(f'{count:,} {word}' for word, count in news.items())}: see --report")
    if fleet.has_baseline and not fleet.changes:
        line("baseline", " all is as it was")
    slowest = [f"{sanitise(row.model)} {seconds_text(row.seconds)}" for row in fleet.slowest[:3]]
    if slowest:
        line("slowest", f" {', '.join(slowest)}")
    if fleet.ended:
        line("ended", " ", (sanitise(fleet.ended), "bold white on red"))
    line("time", f" {seconds_text(fleet.seconds)}")
    line("written", " nothing" if fleet.is_dry else f" {sanitise(fleet.to)}")
