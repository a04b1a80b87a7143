"""What works on the models: this process, one after another, or Dask, which schedules, retries and ships."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from surgeon.automation.fleet.execution.model_process import run_in_process
from surgeon.automation.fleet.fleet_row import FleetRow, row_from_dict
from surgeon.automation.fleet.job import ModelJob
from surgeon.automation.fleet.storage.storage import TransientStorageError


class EngineDisconnected(Exception):
    """What worked on models went away; the message is a clause.  The rows that came are good."""


class FleetEngine(Protocol):
    """What works on models."""

    def rows(self, jobs: Iterable[ModelJob]) -> Iterator[FleetRow]:
        """Their rows, as they are done."""
        ...

    @property
    def dashboard(self) -> str:
        """Where one can watch it work, "" where one cannot."""
        ...

    def close(self) -> None:
        """Let go of what was started for it."""
        ...


class SequentialEngine:
    """This process: one model after another, each in a process of its own.  tell: called with each that begins."""

    dashboard = ""

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        self._tell = tell

    def rows(self, jobs: Iterable[ModelJob]) -> Iterator[FleetRow]:
        """Their rows, in order."""
        for job in jobs:
            if self._tell is not None:
                self._tell(job.name)
            try:
                row: Any = run_in_process(job)
            except TransientStorageError as error:
                yield job.row("unwritten", str(error))
                continue
            yield row_from_dict(row)

    def close(self) -> None:
        """Nothing was started but the process of the last model, which the next run may need."""
