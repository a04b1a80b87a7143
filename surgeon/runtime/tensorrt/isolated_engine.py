"""Models under TensorRT, in workers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.printed_commands import command
from surgeon.runtime.processes.worker import ALL_MEMORY, Task, TaskFailure, acquire_worker, release_worker
from surgeon.runtime.run_limits import DEFAULT_TIMEOUT, RUNTIMES, TENSORRT
from surgeon.runtime.sessions.isolated_session import IsolatedSession, session_error_of
from surgeon.runtime.tensorrt.library import LIBRARIES, Library
from surgeon.runtime.tensorrt.parser_tasks import ParseRequest
from surgeon.versions import install_command

MODULE = "surgeon.runtime.tensorrt.engine"


@dataclass(frozen=True, slots=True)
class TensorRtRuntime:
    """How models run under TensorRT."""

    library: Library
    """The TensorRT to use."""
    run_time: float = DEFAULT_TIMEOUT
    """Seconds of processor time to build an engine, and for one run."""

    def open(self, model: Path | ModelProto, *, optimised: bool = False) -> IsolatedSession:
        """Return a session of a model, as `IsolatedRuntime.open` does; an engine is always optimised."""
        return IsolatedSession(self.source(model), self.run_time, f"{MODULE}:hold")

    def source(self, model: Path | ModelProto) -> ParseRequest:
        """The request to parse a model."""
        module = self.library.module
        assert module is not None, "a library that is installed"
        return ParseRequest(module, model if isinstance(model, Path) else model.SerializeToString())


def require_runtime(runtime: str, run_time: float) -> TensorRtRuntime | None:
    """TensorRT if `runtime` names it, None for ONNX Runtime.

    Raises UsageError for another name, if TensorRT is not installed, and on a machine without a GPU.
    """
    if runtime not in RUNTIMES:
        raise UsageError(f"There is no runtime {runtime!r} here; choose {' or '.join(RUNTIMES)}.")
    if runtime != TENSORRT:
        return None
    library = next((one for one in LIBRARIES if one.module is not None), None)
    if library is None:
        raise UsageError(f"TensorRT is not installed: {install_command('tensorrt')}.")
    why = _asked("gpu", None, run_time)["why"]
    if why:
        build = command("check", "IN", "--target", "tensorrt", "--build")
        raise UsageError(
            f"{library.title} runs on a GPU of NVIDIA's, and there is none here: {why}.  Run this where there is one; "
            f"a build needs none: {build}"
        )
    return TensorRtRuntime(library, run_time)


def _asked(function: str, argument: Any, run_time: float) -> dict[str, Any]:
    child = acquire_worker()
    try:
        result = child.run(Task(f"{MODULE}:{function}", argument, run_time, ALL_MEMORY))
    finally:
        release_worker(child)
    if isinstance(result, TaskFailure):
        raise UsageError(f"NVIDIA's driver cannot be asked: {session_error_of(result, run_time).message}")
    return result.value
