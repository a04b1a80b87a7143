"""Engines that work on the models: this process, one model after another, or Dask."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from surgeon.automation.fleet.execution.model_process import run_in_process
from surgeon.automation.fleet.fleet_row import FleetRow, row_from_dict
from surgeon.automation.fleet.job import ModelJob
from surgeon.automation.fleet.storage.storage import TransientStorageError


class EngineDisconnected(Exception):
    """The connection to the engine is lost; the message is a clause.  The rows so far are valid."""


class FleetEngine(Protocol):
    """Works on models."""

    def rows(self, jobs: Iterable[ModelJob]) -> Iterator[FleetRow]:
        """The rows of models in the order in which they finish."""
        ...

    @property
    def dashboard(self) -> str | None:
        """The address of a dashboard; None if there is none."""
        ...

    def close(self) -> None:
        """Release the resources of the engine."""
        ...


class SequentialEngine:
    """Works on one model after another, each in its own process.  on_start: called with the name of each model."""

    dashboard = None

    def __init__(self, on_start: Callable[[str], None] | None = None) -> None:
        self._on_start = on_start

    def rows(self, jobs: Iterable[ModelJob]) -> Iterator[FleetRow]:
        """The rows of models, in order."""
        for job in jobs:
            if self._on_start is not None:
                self._on_start(job.model.name)
            try:
                row: Any = run_in_process(job)
            except TransientStorageError as error:
                yield job.row("unwritten", str(error))
                continue
            yield row_from_dict(row)

    def close(self) -> None:
        """Keep the process of the last model for the next run."""
