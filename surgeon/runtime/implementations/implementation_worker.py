"""The caller's side of the worker that runs Python implementations.

The worker first receives the pickled functions.  Each call sends the name of one and its inputs.  Results are not
unpickled.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surgeon.errors import UsageError
from surgeon.runtime.implementations.function_pickling import search_path
from surgeon.runtime.implementations.implementation import Implementation
from surgeon.runtime.implementations.implementation_tasks import CallRequest, FunctionSet
from surgeon.runtime.processes.pipe_protocol import is_sendable_dtype
from surgeon.runtime.processes.worker import (
    ALL_MEMORY,
    Task,
    TaskFailure,
    TaskResult,
    Worker,
    acquire_worker,
    release_worker,
)
from surgeon.runtime.sessions.ort_session import OUT_OF_MEMORY, SessionError

CALL_TIMEOUT = 60.0
"""Default limit of one call in seconds, and limit for the start of the process."""
_MODULE = "surgeon.runtime.implementations.implementation_tasks"


class ImplementationWorker:
    """A process that runs implementations.  It starts at the first call, and again after a call that ended it.

    limit: seconds for each call.  After `close`, the process waits for the next user of the same functions; it ends
    with this process.  Raises UsageError for an implementation that cannot be pickled.
    """

    def __init__(self, implementations: Sequence[Implementation], limit: float | None = None) -> None:
        self._where = {one.name: one.where for one in implementations}
        self._limit = CALL_TIMEOUT if limit is None else limit
        functions = tuple((one.name, one.pickled(), str(one.file or "")) for one in implementations)
        beside = [str(one.file.parent) for one in implementations if one.from_custom_ops and one.file is not None]
        self._served = FunctionSet(functions, tuple(dict.fromkeys((*beside, *search_path()))), os.getcwd())
        self._child: Worker | None = None

    def call(self, op: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[np.ndarray]:
        """Run the implementation of `op` ("domain::Op") and return its arrays.

        Raises SessionError, with the operator and its file, if the function raises, ends its process, returns no arrays
        or takes too long.  The last sets `is_unsupported`, because it says nothing about the model.  Raises UsageError
        if the function cannot be unpickled.
        """
        try:
            given = [None if value is None else _numbers(value) for value in inputs]
            settings = {name: _numbers(one) if isinstance(one, np.ndarray) else one for name, one in attributes.items()}
        except (TypeError, ValueError) as error:
            raise self._failure(op, f"cannot receive its inputs ({error}). They must be tensors of numbers") from error
        if self._child is None:
            self._child = self._started(op)
        answer = self._asked(self._child, op, "call", argument=CallRequest(op, given, settings), limit=self._limit)
        if "problem" in answer.value:
            raise UsageError(f"The implementation of {op}{self._where[op]} {answer.value['problem']}.")
        if "error" in answer.value:
            raise self._failure(op, str(answer.value["error"]))
        return answer.arrays

    def _started(self, op: str) -> Worker:
        """A process that has the current functions."""
        while True:
            child = acquire_worker(self._served)
            if not self._asked(child, op, "serve", argument=self._served, limit=CALL_TIMEOUT).value["stale"]:
                return child
            child.end()

    def _asked(self, child: Worker, op: str, function: str, argument: Any, limit: float) -> TaskResult:
        """Run a task.  Raises SessionError if the process ends or takes too long, as `call` does."""
        found = child.run(Task(f"{_MODULE}:{function}", argument, 0.0, ALL_MEMORY, wall_seconds=limit))
        if isinstance(found, TaskResult):
            return found
        self._child = None
        release_worker(child)
        if found.cause == "memory":
            raise SessionError(OUT_OF_MEMORY, is_unsupported=True)
        if found.cause == "clock":
            raise self._failure(op, f"did not return within {limit:g} s. Make it faster", is_unsupported=True)
        raise self._failure(op, _ending(found))

    def close(self) -> None:
        """Release the process."""
        child, self._child = self._child, None
        if child is not None:
            release_worker(child)

    def _failure(self, op: str, what: str, *, is_unsupported: bool = False) -> SessionError:
        return SessionError(
            f"The implementation of {op}{self._where.get(op, '')} {what}.", is_unsupported=is_unsupported
        )


def _numbers(value: Any) -> np.ndarray:
    """A contiguous array.  Raises TypeError unless it contains numbers."""
    array = np.asarray(value, order="C")
    if not is_sendable_dtype(array.dtype):
        raise TypeError(f"unsupported dtype {array.dtype.name}")
    return array


def _ending(failure: TaskFailure) -> str:
    """How a process ended unexpectedly, as a phrase."""
    if failure.cause == "crash":
        return f"crashed ({failure.detail})"
    how = f" ({failure.detail})" if failure.detail else ""
    return f"ended its process{how} instead of returning a result"
