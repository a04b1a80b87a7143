"""Whole models in a worker, so that a crash does not reach the user's process."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from onnx import ModelProto

from surgeon.errors import ModelFileError
from surgeon.file.model import Model
from surgeon.ops.traversal import holds_any
from surgeon.runtime.implementations.implementation import export_registry, local_only_ops
from surgeon.runtime.processes.worker import (
    ALL_MEMORY,
    CPU_FAULT_SIGNALS,
    Task,
    TaskFailure,
    Worker,
    acquire_worker,
    memory_limit,
    release_worker,
    wall_clock_limit,
)
from surgeon.runtime.run_limits import DEFAULT_TIMEOUT
from surgeon.runtime.sessions.model_session import ModelSession, open_model
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.runtime.sessions.session_tasks import OpenRequest, RunRequest

MODULE = "surgeon.runtime.sessions.session_tasks"


@dataclass(frozen=True, slots=True)
class IsolatedRuntime:
    """How whole models run in workers."""

    custom_ops: Sequence[Path | str] = ()
    """See `open_model`."""
    run_time: float = DEFAULT_TIMEOUT
    """Limit of processor time, in seconds, to load a model and for each run."""

    def open(
        self, model: Path | ModelProto, *, optimised: bool = False, only_loads: bool = False, folder: Path | None = None
    ) -> ModelSession:
        """Return a session of a whole model in a worker.  A context manager: leave it, or the worker stays in use.

        It works like `open_model`, but a model that ends its process, takes too long or needs too much memory also
        raises SessionError.  A model with an operator that is implemented only in this process runs here.
        """
        if _is_computed_here(model, local_only_ops(self.custom_ops)):
            return open_model(model, self.custom_ops, optimised=optimised, only_loads=only_loads, folder=folder)
        own = export_registry(self.custom_ops)
        opening = OpenRequest(
            model, tuple(self.custom_ops), optimised, implementations=own, only_loads=only_loads, folder=folder
        )
        return IsolatedSession(opening, self.run_time)


def _is_computed_here(model: Path | ModelProto, own: Collection[tuple[str, str]]) -> bool:
    if not own:
        return False
    try:
        with Model.open(model) as opened:
            return holds_any(opened.skeleton, own)
    except ModelFileError:  # the worker reports it like any model that does not load
        return False


class IsolatedSession:
    """A whole model in a worker.

    hold: the task that opens it, as "module:name".  opening: its argument.  kind: the affinity of the worker.
    """

    def __init__(
        self, opening: Any, run_time: float, hold: str = f"{MODULE}:hold", kind: Hashable | None = None
    ) -> None:
        self._run_time = run_time
        self._child: Worker | None = acquire_worker(kind)
        self._end: SessionError | None = None
        try:
            answer, _ = self._ask(hold, opening)
        except BaseException:
            self._leave()
            raise
        self.name: str = answer["name"]
        self.inputs: tuple[str, ...] = tuple(answer["inputs"])
        self.outputs: tuple[str, ...] = tuple(answer["outputs"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once.  Raises SessionError, also for every run after one that ended the process."""
        answer, arrays = self._ask(f"{MODULE}:run", RunRequest(dict(feeds), self.outputs))
        found = dict(zip(answer["names"], arrays, strict=True))
        for name, (shape, words) in answer["words"].items():
            found[name] = np.asarray(words, dtype=object).reshape(shape)
        return {name: found[name] for name in answer["order"]}

    def _ask(self, function: str, argument: Any) -> tuple[dict[str, Any], list[Any]]:
        if self._end is not None or self._child is None:
            raise self._end or SessionError("The session is closed.")
        result = self._child.run(Task(function, argument, self._run_time, ALL_MEMORY))
        if isinstance(result, TaskFailure):
            self._end = session_error_of(result, self._run_time)
            raise self._end
        if "refused" in result.value:
            missing, lacks = bool(result.value["missing"]), result.value["lacks"]
            raise SessionError(result.value["refused"], is_unsupported=missing, lacks=lacks)
        return result.value, result.arrays

    def _leave(self) -> None:
        """Release the model and the worker."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.is_alive:
            child.run(Task(f"{MODULE}:let_go", None, self._run_time, ALL_MEMORY))
        release_worker(child)


def session_error_of(failure: TaskFailure, run_time: float) -> SessionError:
    """The SessionError for a failure of a worker.  A lack of time or memory says nothing about the model."""
    if failure.cause in ("time", "clock"):
        took = f"{run_time:g} s" if failure.cause == "time" else f"{wall_clock_limit(run_time):g} s of wall-clock time"
        what_to_do = f"Use smaller sizes, your own inputs, or more time (--run-time {5 * run_time:g})"
        return SessionError(f"A run takes more than {took}. {what_to_do}.", is_unsupported=True, hit_limit=True)
    if failure.cause == "memory":
        size = memory_limit(ALL_MEMORY) / 1e9
        return SessionError(f"A run needs more than {size:.1f} GB of memory.", is_unsupported=True, hit_limit=True)
    how = f" with {failure.detail}" if failure.detail else ""
    return SessionError(f"A run ended its process{how}.", is_unsupported=failure.detail not in CPU_FAULT_SIGNALS)
