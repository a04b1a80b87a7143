"""The Dask engine: it schedules the models on workers, and retries after failures of a worker or a store.

Each worker runs each model in its own process (see `model_process`), so that a model cannot kill a worker.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.client import HTTPException
from itertools import islice
from typing import Any
from urllib.request import urlopen

from surgeon.automation.fleet.execution.fleet_engine import EngineDisconnected
from surgeon.automation.fleet.execution.model_process import START_TOPIC, run_in_process
from surgeon.automation.fleet.fleet_row import FleetRow, row_from_dict
from surgeon.automation.fleet.job import ModelJob, dependency_versions
from surgeon.automation.fleet.storage.storage import TransientStorageError
from surgeon.errors import UsageError
from surgeon.runtime.processes.worker import ALL_MEMORY, memory_limit
from surgeon.versions import install_command

MEMORY = "memory"
"""The resource of workers for the expected memory of models, in bytes."""
_TRIES = 2  # retries if a store does not answer
_ANSWER, _WORKERS = 10.0, 60.0  # seconds to wait for a scheduler, and for a worker
_DASHBOARD = 3.0  # seconds to wait for a dashboard
_WITHOUT_BOKEH = b"Dask needs bokeh"  # on the page that replaces it without bokeh
_AHEAD = 32  # models per thread that are submitted at once: enough to keep it busy, few enough for memory
# The expected memory of a model: a process after its imports, the file, and the index per node.
_BASE, _PER_NODE, _FILE_BYTES_PER_NODE = 500_000_000, 20_000, 400


class DaskEngine:
    """A scheduler and its workers.  on_start: called with the name of each model that starts."""

    def __init__(self, client: Any, on_start: Callable[[str], None] | None, ends: Sequence[Any] = ()) -> None:
        self._client, self._ends = client, ends
        self._shares = False
        if on_start is not None:
            client.subscribe_topic(START_TOPIC, lambda event: on_start(event[1]))
        self._reports_start = on_start is not None

    def require(self, files: Iterable[str]) -> None:
        """Raise UsageError if workers differ from this process.  files: paths that they have to read."""
        try:
            self._client.wait_for_workers(1, timeout=_WORKERS)
        except TimeoutError:
            how = f"Start one: dask worker {self._address}"
            raise UsageError(f"The scheduler at {self._address} has no worker. {how}") from None
        for worker, found in self._client.run(_environment_probe(), list(files), on_error="return").items():
            if isinstance(found, BaseException):
                raise UsageError(f"The worker {worker} does not respond: {type(found).__name__}: {found}.")
            different = {
                name: number for name, number in found["versions"].items() if dependency_versions()[name] != number
            }
            if different:
                name, number = next(iter(different.items()))
                raise UsageError(
                    f"The worker {worker} has {name} {number}, but this process has {dependency_versions()[name]}. "
                    "Install the same version everywhere."
                )
            if found["lacking"]:
                lacking = found["lacking"][0]
                raise UsageError(f"The worker {worker} cannot read {lacking}. Use a store, or mount the folder there.")
        self._shares = all(MEMORY in worker.get("resources", {}) for worker in self._workers)

    @property
    def dashboard(self) -> str | None:
        """The address of Dask's dashboard; None if the scheduler has none, although it has a link."""
        link = str(self._client.dashboard_link or "")
        try:
            with urlopen(link, timeout=_DASHBOARD) as page:
                return None if _WITHOUT_BOKEH in page.read(1 << 16) else link
        except (OSError, ValueError, HTTPException):
            return None

    @property
    def _address(self) -> str:
        return str(self._client.scheduler.address)

    @property
    def _workers(self) -> list[Mapping[str, Any]]:
        info = self._client.scheduler_info(n_workers=-1)
        return list(info["workers"].values())

    def rows(self, jobs: Iterable[ModelJob]) -> Iterator[FleetRow]:
        """The rows of models in the order in which they finish.  Raises EngineDisconnected."""
        from distributed import as_completed

        pending, running = iter(jobs), dict[str, ModelJob]()
        threads = sum(int(worker["nthreads"]) for worker in self._workers)
        ahead, free = _AHEAD * threads, 0
        done = as_completed(self._submit(islice(pending, ahead), running), loop=self._client.loop)
        for batch in done.batches():
            for key, row in self._answers(batch, running):
                del running[key]
                yield row
            free += len(batch)
            if 2 * free >= ahead or not running:  # batches are cheaper for the scheduler
                done.update(self._submit(islice(pending, free), running))
                free = 0

    def _submit(self, jobs: Iterable[ModelJob], running: dict[str, ModelJob]) -> list[Any]:
        """Futures of jobs; `running` gets the jobs by key."""
        keyed = {f"surgeon-{job.settings.cache_key[:8]}-{job.settings.run}-{job.model.name}": job for job in jobs}
        running.update(keyed)
        common = {"pure": False, "retries": _TRIES, "reports_start": self._reports_start}
        if not keyed or not self._shares:
            return (
                list(self._client.map(run_in_process, list(keyed.values()), key=list(keyed), **common)) if keyed else []
            )
        most = max(float(worker["resources"][MEMORY]) for worker in self._workers)
        return [
            self._client.submit(
                run_in_process, job, key=key, resources={MEMORY: min(float(expected_memory(job)), most)}, **common
            )
            for key, job in keyed.items()
        ]

    def _answers(self, futures: Sequence[Any], running: Mapping[str, ModelJob]) -> Iterator[tuple[str, FleetRow]]:
        """The rows of finished jobs, each with its key; all successful ones in one request."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        right = [future for future in futures if future.status == "finished"]
        try:
            found = self._client.gather(right, errors="raise")
        except (FutureCancelledError, OSError, TimeoutError):
            raise EngineDisconnected("the scheduler is not available any more") from None
        for future, row in zip(right, found, strict=True):
            yield future.key, row_from_dict(row)
        for future in futures:
            if future.status == "finished":
                continue
            job = running[future.key]
            try:
                future.result()
            except KilledWorker:
                yield future.key, job.row("lost", "Its worker ended repeatedly while it worked on this model.")
            except TransientStorageError as error:
                yield future.key, job.row("unwritten", str(error))
            except (FutureCancelledError, OSError, TimeoutError):
                raise EngineDisconnected("the scheduler is not available any more") from None
            except Exception as error:  # noqa: BLE001 - a worker that cannot start: the others continue
                yield future.key, job.row("lost", f"Its worker could not work on it: {type(error).__name__}: {error}.")

    def close(self) -> None:
        """Close the client and cluster that this run started, but not a client of the caller."""
        for end in self._ends:
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):  # it is closed already
                end.close()


def expected_memory(job: ModelJob) -> int:
    """The expected memory of a model in bytes, from its size and, if known, its nodes."""
    nodes = job.nodes or job.model.size // _FILE_BYTES_PER_NODE
    return min(_BASE + job.model.size + _PER_NODE * nodes, memory_limit(ALL_MEMORY))


def _environment_probe() -> Callable[[list[str]], dict[str, Any]]:
    """A function for workers that returns versions and unreadable files; it imports surgeon only if installed."""

    def facts(files: list[str]) -> dict[str, Any]:
        import os

        try:
            from surgeon.automation.fleet.job import dependency_versions
        except ImportError:  # also if another project is called surgeon
            found = {"surgeon": "none"}
        else:
            found = dict(dependency_versions())
        return {"versions": found, "lacking": [file for file in files if not os.path.exists(file)]}

    return facts


def start_local(jobs: int, on_start: Callable[[str], None] | None) -> DaskEngine:
    """A scheduler and a worker with `jobs` threads in this process; each model has its own process anyway."""
    distributed = _import_distributed(f"--jobs {jobs}")
    cluster = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=jobs,
        processes=False,
        memory_limit=0,
        dashboard_address="127.0.0.1:0",
        resources={MEMORY: memory_limit(ALL_MEMORY)},
        silence_logs=logging.CRITICAL,
    )
    client = distributed.Client(cluster, set_as_default=False)
    found = DaskEngine(client, on_start, (client, cluster))
    found.require(())
    return found


def connect(engine: str, on_start: Callable[[str], None] | None, files: Iterable[str]) -> DaskEngine:
    """A running scheduler.  Raises UsageError if none answers, or its workers differ from this process."""
    distributed = _import_distributed(f"--engine {engine}")
    import dask

    address = engine.replace("dask://", "tcp://", 1) if engine != "dask" else dask.config.get("scheduler-address", None)
    if not address:
        hint = "Set DASK_SCHEDULER_ADDRESS, or give dask://HOST:PORT"
        raise UsageError(f"Dask's configuration has no scheduler. {hint}.")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=_ANSWER, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        why = str(error) if isinstance(error, ValueError) else f"no answer within {_ANSWER:g} s"
        raise UsageError(f"No scheduler found at {address}: {why.rstrip('.')}.") from None
    found = DaskEngine(client, on_start, (client,))
    try:
        found.require(files)
    except BaseException:
        found.close()
        raise
    return found


def _import_distributed(what: str) -> Any:
    try:
        import distributed
    except ImportError:
        raise UsageError(f"{what} needs Dask. Install it: {install_command('fleet')}") from None
    return distributed
