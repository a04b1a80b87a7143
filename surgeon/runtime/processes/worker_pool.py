"""A pool of workers that run tasks in parallel."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from surgeon.runtime.processes import worker
from surgeon.runtime.processes.worker import Task, TaskOutcome, TaskResult, Worker, acquire_worker, release_worker

MAX_JOBS = 4
# Another worker starts after the others have worked for these seconds of processor time, or of wall-clock time.
_WORTH, _PATIENCE = 0.5, 5.0


def default_jobs() -> int:
    """The default number of workers: one per available core, at most four."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_JOBS)


def prefork_workers(jobs: int | None) -> None:
    """Prepare workers for the next `run`, while they are cheap.  jobs: None for the default.

    It prepares at most the default number.  More start when there is work for them.
    """
    worker.prefork(min(jobs or MAX_JOBS, default_jobs()))


def run(tasks: Iterable[Task], jobs: int) -> list[TaskOutcome]:
    """Run tasks in at most `jobs` workers at once; return their results in order.

    This thread takes the tasks from the iterable one by one, while workers run earlier ones.  An exception of a
    function, except MemoryError, is raised here: UsageError and ModelFileError unchanged, others as RuntimeError,
    because they are bugs of surgeon.
    """
    pool = WorkerPool(jobs)
    try:
        for task in tasks:
            pool.submit(task)
        return pool.results()
    finally:
        pool.shutdown()


@dataclass(slots=True)
class WorkerPool:
    """Threads for the tasks of one `run`, each with one worker."""

    jobs: int
    """Number of threads."""
    _count: int = 0
    _tasks: deque[tuple[int, Task]] = field(default_factory=deque)
    _results: dict[int, TaskOutcome] = field(default_factory=dict)
    _errors: list[BaseException] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _busy: "set[Worker]" = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _is_over: bool = False
    _spent: float = 0.0

    def submit(self, task: Task) -> None:
        """Add a task; waits while several are queued."""
        with self._changed:
            self._wait_until(lambda: len(self._tasks) < self.jobs)
            self._tasks.append((self._count, task))
            self._count += 1
            self._changed.notify_all()
        if len(self._threads) < min(self._count, self.jobs):
            thread = threading.Thread(target=self._work, args=(len(self._threads),), daemon=True)
            self._threads.append(thread)
            thread.start()

    def results(self) -> list[TaskOutcome]:
        """Wait for all results."""
        with self._changed:
            self._wait_until(lambda: len(self._results) == self._count)
        return [self._results[place] for place in range(self._count)]

    def shutdown(self) -> None:
        """Release all workers; one that is still busy is killed."""
        with self._changed:
            self._is_over = True
            for child in self._busy:
                child.kill()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so() and not self._errors:
            self._changed.wait(1.0)  # with a timeout, because on Windows nothing interrupts it
        if self._errors:
            raise self._errors[0]

    def _work(self, others: int) -> None:
        """Run tasks until the end.  others: number of workers that get the first chance to do all tasks."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._spent >= others * _WORTH, others * _PATIENCE)
        child: Worker | None = None
        while (found := self._next()) is not None:
            place, task = found
            try:
                child = self._hired(child)
                result = child.run(task)
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                self._errors.append(error)
            else:
                self._results[place] = result
                self._spent += result.seconds if isinstance(result, TaskResult) else task.cpu_seconds
            with self._changed:
                if child is not None:
                    self._busy.discard(child)
                self._changed.notify_all()
        if child is not None:
            release_worker(child)

    def _next(self) -> tuple[int, Task] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._tasks)
            return None if self._is_over else self._tasks.popleft()

    def _hired(self, child: "Worker | None") -> "Worker":
        """The worker of the last task if it is alive, else another."""
        found = child if child is not None and child.is_alive else acquire_worker()
        with self._changed:
            self._busy.add(found)
            if self._is_over:
                found.kill()
        return found
