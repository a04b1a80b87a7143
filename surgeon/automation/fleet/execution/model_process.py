"""Runs one model in a process with limits; returns a row however that process ends."""

import contextlib
import os
import shutil
import sys
import time
from dataclasses import replace
from typing import Any

from surgeon.automation.fleet.fleet_row import FleetRow, row_from_dict
from surgeon.automation.fleet.job import ModelJob, dependency_versions
from surgeon.automation.fleet.storage.storage import TransientStorageError, stage_in, storage_of
from surgeon.errors import ModelFileError, UsageError
from surgeon.runtime.processes.worker import (
    ALL_MEMORY,
    Task,
    TaskFailure,
    TaskResult,
    acquire_worker,
    memory_limit,
    release_worker,
)

START_TOPIC = "surgeon-begins"
"""The topic of the Dask events for models that start."""
_MODULE = "surgeon.automation.fleet.execution.run_model"
_READY = 120.0  # seconds in which a process has to be ready


def run_in_process(job: ModelJob, reports_start: bool = False) -> dict[str, Any]:
    """Work on one model; returns its row.  Raises TransientStorageError if a retry may help, and no other error.

    reports_start: whether a Dask worker reports the start of the model.
    """
    started = time.perf_counter()
    home = None
    if sys.modules.get("distributed") is not None:
        home = _dask_worker_folder(job.model.name if reports_start else "")
    if job.settings.versions != dependency_versions():
        return job.row("lost", "Its worker has other package versions than the process that started the run.").to_dict()
    row: FleetRow | None = None
    stage = None
    try:
        stage = stage_in(*storage_of(job.settings.to), home)
        answer = _run_in_worker(replace(job, stage=stage))
        if isinstance(answer, TaskResult):
            if answer.value.get("busy"):
                raise TransientStorageError(answer.value["why"])
            row = row_from_dict(answer.value)
        else:
            row = _failure_row(job, answer)
    except TransientStorageError:
        raise
    except (ModelFileError, UsageError) as error:
        row = job.row("unwritten" if stage is None else "refused", str(error))
    except RuntimeError as error:  # a defect in the process: other models continue
        row = job.row("crashed", " ".join(str(error).split("\n", 1)[0].split()))
    finally:
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)
    row.seconds = time.perf_counter() - started
    return row.to_dict()


def _dask_worker_folder(name: str) -> str | None:
    """The temporary folder of the Dask worker that runs this, None elsewhere; reports the start of a model if named."""
    from distributed import get_worker

    with contextlib.suppress(ValueError):  # this is not a worker
        worker = get_worker()
        if name:
            worker.log_event(START_TOPIC, name)
        return str(worker.local_directory)
    return None


def _failure_row(job: ModelJob, failure: TaskFailure) -> FleetRow:
    """The row of a model whose process returned nothing."""
    last_note = failure.last_note if isinstance(failure.last_note, dict) else {}
    at = f" while {last_note['at']}" if last_note.get("at") else ""
    if failure.cause in ("clock", "time"):
        why = f"It took more than {job.settings.limits.seconds:g} s{at}. Give it more time with --model-time."
        return job.row("late", why)
    if failure.cause == "memory":
        why = f"It took more than {job.memory / 1e9:.1f} GB of memory{at}. Give it more with --model-memory."
        return job.row("memory", why)
    how = f" with {failure.detail}" if failure.detail else ""
    return job.row("crashed", f"Its process ended{how}{at}.")


def _run_in_worker(job: ModelJob) -> Any:
    job = replace(job, memory=job.settings.limits.memory or memory_limit(ALL_MEMORY))
    child = acquire_worker((job.settings.cache_key, job.memory, _environment()))
    try:
        # The imports do not count against the limit of the model.
        child.run(Task(f"{_MODULE}:load", None, 0.0, wall_seconds=_READY, memory=memory_limit(ALL_MEMORY)))
        limit = job.settings.limits.seconds
        return child.run(Task(f"{_MODULE}:run_model", job, 0.0, wall_seconds=limit, memory=job.memory))
    finally:
        release_worker(child)


def _environment() -> frozenset[tuple[str, str]]:
    """The environment of a new process, with the credentials of stores."""
    return frozenset(os.environ.items())
