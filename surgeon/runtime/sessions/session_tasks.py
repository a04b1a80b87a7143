"""Tasks of a worker for whole models: open one, run it, and release it.

Arrays of numbers are sent as raw bytes, strings as text.  Nothing in an answer is unpickled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from surgeon.runtime.implementations.implementation import import_registry
from surgeon.runtime.processes.pipe_protocol import is_sendable_dtype
from surgeon.runtime.processes.worker_main import ReportProgress
from surgeon.runtime.sessions.model_session import ModelSession, open_model
from surgeon.runtime.sessions.ort_session import SessionError


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A model to open in a worker."""

    model: Path | ModelProto
    """A file, or a model with its weights."""
    custom_ops: Sequence[Path | str]
    """Libraries and Python files of custom ops."""
    optimised: bool
    """Whether ONNX Runtime optimises it."""
    implementations: bytes
    """The registrations of the user's process, from `export_registry`."""
    only_loads: bool = False
    """See `OrtSession`."""
    folder: Path | None = None
    """See `OrtSession`."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run of the open model."""

    feeds: dict[str, np.ndarray]
    """Inputs by name."""
    outputs: tuple[str, ...]
    """Names of the outputs to return."""


_held: list[ModelSession] = []


def hold(opening: OpenRequest, _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Open a model instead of the previous one."""

    def opened() -> ModelSession:
        import_registry(opening.implementations)
        return open_model(
            opening.model,
            opening.custom_ops,
            optimised=opening.optimised,
            only_loads=opening.only_loads,
            folder=opening.folder,
        )

    return hold_as(opened)


def hold_as(opened: Callable[[], ModelSession]) -> tuple[dict[str, Any], list[Any]]:
    """Open a model with a function, for `run` and `let_go`.  opened: returns the session, or raises SessionError."""
    _free()
    try:
        _held.append(opened())
    except SessionError as refused:
        return _refusal(refused), []
    (whole,) = _held
    return {"name": whole.name, "inputs": list(whole.inputs), "outputs": list(whole.outputs)}, []


def run(asked: RunRequest, _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Run the open model once."""
    (whole,) = _held
    whole.outputs = asked.outputs
    try:
        found = whole.run(asked.feeds)
    except SessionError as refused:
        return _refusal(refused), []
    numbers = {name: array for name, array in found.items() if is_sendable_dtype(array.dtype)}
    words = {
        name: [list(array.shape), [str(item) for item in array.reshape(-1)]]
        for name, array in found.items()
        if name not in numbers
    }
    return {"order": list(found), "names": list(numbers), "words": words}, list(numbers.values())


def let_go(_: None, __: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Release the open model and its memory."""
    _free()
    return {}, []


def _free() -> None:
    while _held:
        _held.pop().__exit__(None, None, None)


def _refusal(refused: SessionError) -> dict[str, Any]:
    return {"refused": refused.message, "missing": refused.is_unsupported, "lacks": refused.lacks}
