"""One model in a process with limits, seen from outside: whatever becomes of that process, there is a row."""

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

BEGINS = "surgeon-begins"
"""The topic of Dask's events under which models that begin are told."""
_MODULE = "surgeon.automation.fleet.execution.run_model"
_READY = 120.0  # seconds that a process may take to load what it needs


def run_in_process(job: ModelJob, tells: bool = False) -> dict[str, Any]:
    """Work on one model; its row.  Raises TransientStorageError where another try may do, and for nothing else.

    tells: whether the worker of Dask that this is says that it begins.
    """
    started = time.perf_counter()
    home = None
    if sys.modules.get("distributed") is not None:
        home = _home_in_worker(job.name if tells else "")
    if job.orders.versions != dependency_versions():
        return job.row("lost", "The worker that had it has other versions than the process that asked.").to_dict()
    row: FleetRow | None = None
    stage = None
    try:
        stage = stage_in(*storage_of(job.orders.to), home)
        answer = _asked(replace(job, stage=stage))
        if isinstance(answer, TaskResult):
            if answer.value.get("busy"):
                raise TransientStorageError(answer.value["why"])
            row = row_from_dict(answer.value)
        else:
            row = _ended(job, answer)
    except TransientStorageError:
        raise
    except (ModelFileError, UsageError) as error:
        row = job.row("unwritten" if stage is None else "refused", str(error))
    except RuntimeError as error:  # a fault of ours in the process: the others go on
        row = job.row("crashed", " ".join(str(error).split("\n", 1)[0].split()))
    finally:
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)
    row.seconds = time.perf_counter() - started
    return row.to_dict()


def _home_in_worker(name: str) -> str | None:
    """The folder of the worker of Dask that this is, which it takes away in the end; tells of the model, if named."""
    from distributed import get_worker

    with contextlib.suppress(ValueError):  # this is none
        worker = get_worker()
        if name:
            worker.log_event(BEGINS, name)
        return str(worker.local_directory)
    return None


def _ended(job: ModelJob, failure: TaskFailure) -> FleetRow:
    """The row of a model whose process gave no answer."""
    noted = failure.last_note if isinstance(failure.last_note, dict) else {}
    at = f" while {noted['at']}" if noted.get("at") else ""
    if failure.cause in ("clock", "time"):
        why = f"It took more than {job.orders.model_time:g} s{at}; give it more with --model-time."
        return job.row("late", why)
    if failure.cause == "memory":
        why = f"It took more than {job.memory / 1e9:.1f} GB of memory{at}; give it more with --model-memory."
        return job.row("memory", why)
    how = f" with {failure.detail}" if failure.detail else ""
    return job.row("crashed", f"It ended the process that worked on it{how}{at}.")


def _asked(job: ModelJob) -> Any:
    job = replace(job, memory=job.orders.model_memory or memory_limit(ALL_MEMORY))
    child = acquire_worker((job.orders.cache_key, job.memory, _environment()))
    try:
        # It loads what it needs, so that the time of a model is its own.
        child.run(Task(f"{_MODULE}:ready", None, 0.0, wall_seconds=_READY, memory=memory_limit(ALL_MEMORY)))
        return child.run(Task(f"{_MODULE}:work", job, 0.0, wall_seconds=job.orders.model_time, memory=job.memory))
    finally:
        release_worker(child)


def _environment() -> frozenset[tuple[str, str]]:
    """What a process is given when it starts: credentials of stores among it."""
    return frozenset(os.environ.items())
