"""What came of many models, for people: a line that goes with the run, and a summary behind it."""

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

MOST = 20  # models of one kind that are named
MOST_STALE = 5  # results of earlier runs that are named
_LOUD = {
    "refused": ("REFUSED", "bold white on red"),
    "unexpected": ("UNEXPECTED", "bold white on red"),
    "late": ("LATE", "bold white on red"),
    "memory": ("OUT OF MEMORY", "bold white on red"),
    "crashed": ("CRASHED", "bold white on red"),
    "lost": ("LOST", "bold white on red"),
    "unwritten": ("NOT WRITTEN", "bold white on red"),
}


class FleetProgress:
    """A line on the terminal: how many are done, what came of them, and what is at work now and for how long."""

    def __init__(self, quiet: bool) -> None:
        self._shows = not quiet and sys.stderr.isatty()
        self._status: Any = None
        self._begun: dict[str, float] = {}
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
        """Tell where Dask shows what it does."""
        click.echo(f"dashboard {sanitise(address)}", err=True)

    def begins(self, model: str) -> None:
        """Note that a model is worked on from now on."""
        self._begun[model] = time.monotonic()

    def show_row(self, row: "FleetRow", done: int, total: int) -> None:
        """Note that one is done."""
        self._begun.pop(row.model, None)
        self._done, self._total = done, total
        self._outcomes[row.outcome] += 1

    def __rich__(self) -> str:
        told = ", ".join(f"{count:,} {outcome}" for outcome, count in self._outcomes.most_common())
        now = time.monotonic()
        slow = sorted(self._begun.items(), key=lambda item: item[1])[:3]
        at = "; ".join(f"{sanitise(name)} for {now - begun:.0f} s" for name, begun in slow)
        count = f"{self._done:,} of {self._total:,} models"
        return count + (f": {told}" if told else "") + (f"; at {at}" if at else "")


def print_fleet(fleet: "Fleet", stream: TextIO) -> None:
    """Print what came of a fleet: outcomes, rules, what is wrong, what is otherwise than in the baseline."""
    line = labelled_line_printer(make_console(stream))
    outcomes = [f"{count:,} {outcome}" for outcome, count in fleet.outcomes.items()]
    line("models", f" {len(fleet):,}: {', '.join(outcomes) or 'none done'}")
    if fleet.kept:
        line("kept", f" {fleet.kept:,} were done already")
    fired = ", ".join(f"{rule} {count:,}" for rule, count in fleet.counts.items())
    line("rules", f" {fired or 'nothing fired'}")
    for shown, row in enumerate(fleet.wrong):
        if shown == MOST:
            line("", " and more: see --rows")
            break
        name, style = {**OUTCOME_STYLES, **_LOUD}[row.outcome]
        line("", " ", (name, style), f" {sanitise(row.model)}: {sanitise(row.why)}")
    noted = [row for row in fleet if row.why and not row.is_wrong and row.outcome != "unproved"]
    if noted:
        line(
            "note",
            f" {sanitise(noted[0].model)}: {sanitise(noted[0].why)}{and_more(len(noted) - 1, 'models have a note')}",
        )
    stale = [sanitise(row.target) for row in fleet.stale]
    if stale:
        told = "not made by this run: remove such files, or mend the models and run again."
        line("", " ", ("STALE", "bold white on red"), f" {join_first(stale, MOST_STALE)}: {told}")
    for change in fleet.changes[:MOST]:
        title = "worse" if change.is_regression else "other"
        export = "" if change.same_graph else " (the model itself is another)"
        line(title, f" {sanitise(change.model)}: {sanitise(change.what)}{export}")
    if len(fleet.changes) > MOST:
        line("", f"{and_more(len(fleet.changes) - MOST, 'changes')}: see --report")
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
