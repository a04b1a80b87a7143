"""Dask as the engine: it schedules the models, gives them to workers, and tries again where a worker or a store failed.

Each worker has a process for each model as this process would (see `task`): what a model does hurts no worker.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.client import HTTPException
from itertools import islice
from typing import Any
from urllib.request import urlopen

from surgeon.automation.fleet.execution.fleet_engine import EngineDisconnected
from surgeon.automation.fleet.execution.model_process import BEGINS, run_in_process
from surgeon.automation.fleet.fleet_row import FleetRow, row_from_dict
from surgeon.automation.fleet.job import ModelJob, dependency_versions
from surgeon.automation.fleet.storage.storage import TransientStorageError
from surgeon.errors import UsageError
from surgeon.runtime.processes.worker import ALL_MEMORY, memory_limit
from surgeon.versions import install_command

MEMORY = "memory"
"""The resource of workers, in bytes, of which a model takes what it is thought to need."""
_TRIES = 2  # further ones, where a store did not answer
_ANSWER, _WORKERS = 10.0, 60.0  # seconds until a scheduler has answered, and has a worker
_DASHBOARD = 3.0  # seconds until a dashboard has answered
_WITHOUT_BOKEH = b"Dask needs bokeh"  # on a page in its place: bokeh draws it
_AHEAD = 32  # models for each thread that the scheduler holds at once: enough to be busy, and no more for any number
# What a model is thought to take: a process that has loaded everything, its file, and what an index takes by node.
_BASE, _BY_NODE, _BYTES_OF_NODE = 500_000_000, 20_000, 400


class DaskEngine:
    """A scheduler and its workers.  tell: called with the name of each model that begins."""

    def __init__(self, client: Any, tell: Callable[[str], None] | None, ends: Sequence[Any] = ()) -> None:
        self._client, self._ends = client, ends
        self._shares = False
        if tell is not None:
            client.subscribe_topic(BEGINS, lambda event: tell(event[1]))
        self._tells = tell is not None

    def require(self, files: Iterable[str]) -> None:
        """Raise UsageError where workers cannot do what this process would.  files: what they have to reach."""
        try:
            self._client.wait_for_workers(1, timeout=_WORKERS)
        except TimeoutError:
            raise UsageError(f"The scheduler at {self._address} has no worker; start one, as its page says.") from None
        for worker, found in self._client.run(_facts(), list(files), on_error="return").items():
            if isinstance(found, BaseException):
                raise UsageError(f"The worker {worker} cannot be asked: {type(found).__name__}: {found}.")
            other = {
                name: number for name, number in found["versions"].items() if dependency_versions()[name] != number
            }
            if other:
                name, number = next(iter(other.items()))
                raise UsageError(
                    f"The worker {worker} has {name} {number} where this process has {dependency_versions()[name]}; "
                    "give all the same."
                )
            if found["lacking"]:
                lacking = found["lacking"][0]
                raise UsageError(f"The worker {worker} does not reach {lacking}; use a store, or mount it there.")
        self._shares = all(MEMORY in worker.get("resources", {}) for worker in self._workers)

    @property
    def dashboard(self) -> str:
        """The address of Dask's dashboard, "" where the scheduler has none: a link alone does not say so."""
        link = str(self._client.dashboard_link or "")
        try:
            with urlopen(link, timeout=_DASHBOARD) as page:
                return "" if _WITHOUT_BOKEH in page.read(1 << 16) else link
        except (OSError, ValueError, HTTPException):
            return ""

    @property
    def _address(self) -> str:
        return str(self._client.scheduler.address)

    @property
    def _workers(self) -> list[Mapping[str, Any]]:
        info = self._client.scheduler_info(n_workers=-1)
        return list(info["workers"].values())

    def rows(self, jobs: Iterable[ModelJob]) -> Iterator[FleetRow]:
        """The rows of models, as they are done.  Raises EngineDisconnected."""
        from distributed import as_completed

        waiting, working = iter(jobs), dict[str, ModelJob]()
        threads = sum(int(worker["nthreads"]) for worker in self._workers)
        ahead, room = _AHEAD * threads, 0
        done = as_completed(self._submitted(islice(waiting, ahead), working), loop=self._client.loop)
        for batch in done.batches():
            for key, row in self._answers(batch, working):
                del working[key]
                yield row
            room += len(batch)
            if 2 * room >= ahead or not working:  # many at a time cost the scheduler less
                done.update(self._submitted(islice(waiting, room), working))
                room = 0

    def _submitted(self, jobs: Iterable[ModelJob], working: dict[str, ModelJob]) -> list[Any]:
        """Futures of jobs, which `working` has by their keys."""
        keyed = {f"surgeon-{job.orders.cache_key[:8]}-{job.orders.run}-{job.name}": job for job in jobs}
        working.update(keyed)
        common = {"pure": False, "retries": _TRIES, "tells": self._tells}
        if not keyed or not self._shares:
            return (
                list(self._client.map(run_in_process, list(keyed.values()), key=list(keyed), **common)) if keyed else []
            )
        most = max(float(worker["resources"][MEMORY]) for worker in self._workers)
        return [
            self._client.submit(
                run_in_process, job, key=key, resources={MEMORY: min(float(needed(job)), most)}, **common
            )
            for key, job in keyed.items()
        ]

    def _answers(self, futures: Sequence[Any], working: Mapping[str, ModelJob]) -> Iterator[tuple[str, FleetRow]]:
        """What came of jobs that are done, all that are right in one answer."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        right = [future for future in futures if future.status == "finished"]
        try:
            found = self._client.gather(right, errors="raise")
        except (FutureCancelledError, OSError, TimeoutError):
            raise EngineDisconnected("the scheduler is gone") from None
        for future, row in zip(right, found, strict=True):
            yield future.key, row_from_dict(row)
        for future in futures:
            if future.status == "finished":
                continue
            job = working[future.key]
            try:
                future.result()
            except KilledWorker:
                yield future.key, job.row("lost", "Its worker ended again and again while it worked on this model.")
            except TransientStorageError as error:
                yield future.key, job.row("unwritten", str(error))
            except (FutureCancelledError, OSError, TimeoutError):
                raise EngineDisconnected("the scheduler is gone") from None
            except Exception as error:  # noqa: BLE001 - a worker that cannot even begin: the others go on
                yield future.key, job.row("lost", f"Its worker could not work on it: {type(error).__name__}: {error}.")

    def close(self) -> None:
        """Let go of what was started for this run; of a client that was given, nothing."""
        for end in self._ends:
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):  # it is gone already
                end.close()


def needed(job: ModelJob) -> int:
    """The bytes of memory that a model is thought to need, by its size and its nodes, where these are known."""
    nodes = job.nodes or job.size // _BYTES_OF_NODE
    return min(_BASE + job.size + _BY_NODE * nodes, memory_limit(ALL_MEMORY))


def _facts() -> Callable[[list[str]], dict[str, Any]]:
    """What tells of a worker which versions it has and what it does not reach; it needs nothing of ours there."""

    def facts(files: list[str]) -> dict[str, Any]:
        import os

        try:
            from surgeon.automation.fleet.job import dependency_versions
        except ImportError:  # another project's surgeon lacks it too
            found = {"surgeon": "none"}
        else:
            found = dict(dependency_versions())
        return {"versions": found, "lacking": [file for file in files if not os.path.exists(file)]}

    return facts


def local(jobs: int, tell: Callable[[str], None] | None) -> DaskEngine:
    """A scheduler and a worker of so many threads in this process: the models have processes of their own anyway."""
    distributed = _distributed(f"--jobs {jobs}")
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
    found = DaskEngine(client, tell, (client, cluster))
    found.require(())
    return found


def joined(engine: str, tell: Callable[[str], None] | None, files: Iterable[str]) -> DaskEngine:
    """A scheduler that runs.  Raises UsageError where none answers, or its workers are not as this process."""
    distributed = _distributed(f"--engine {engine}")
    import dask

    address = engine.replace("dask://", "tcp://", 1) if engine != "dask" else dask.config.get("scheduler-address", None)
    if not address:
        told = "set DASK_SCHEDULER_ADDRESS, or give dask://HOST:PORT"
        raise UsageError(f"Dask's configuration names no scheduler; {told}.")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=_ANSWER, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        why = str(error) if isinstance(error, ValueError) else f"nothing answers within {_ANSWER:g} s"
        raise UsageError(f"There is no scheduler at {address}: {why.rstrip('.')}.") from None
    found = DaskEngine(client, tell, (client,))
    try:
        found.require(files)
    except BaseException:
        found.close()
        raise
    return found


def _distributed(what: str) -> Any:
    try:
        import distributed
    except ImportError:
        raise UsageError(f"{what} needs Dask: {install_command('fleet')}, or leave it out.") from None
    return distributed
