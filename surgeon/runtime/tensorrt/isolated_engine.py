"""Models under TensorRT, in workers."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.printed_commands import command
from surgeon.runtime.processes.worker import ALL_MEMORY, Task, TaskFailure, acquire_worker, release_worker
from surgeon.runtime.run_limits import DEFAULT_TIMEOUT, RUNTIMES, TENSORRT
from surgeon.runtime.sessions.isolated_session import IsolatedSession, session_error_of
from surgeon.runtime.tensorrt.library import LIBRARIES, Library
from surgeon.runtime.tensorrt.parser_tasks import ParseRequest
from surgeon.target_registry import RuntimeMissing
from surgeon.versions import install_command

MODULE = "surgeon.runtime.tensorrt.engine"


@dataclass(frozen=True, slots=True)
class TensorRtRuntime:
    """Settings to run models under TensorRT."""

    library: Library
    """The TensorRT to use."""
    run_time: float = DEFAULT_TIMEOUT
    """Limit of processor time, in seconds, to build an engine and for each run."""
    tasks: str = MODULE
    """The module whose tasks run models."""

    @property
    def title(self) -> str:
        """Its name in sentences, with its version."""
        return f"{self.library.title} {self.library.version}".rstrip()

    @property
    def precision(self) -> str:
        """Empty, because engines are built without TF32, so each dtype has its full precision."""
        return ""

    def open(self, model: Path | ModelProto, *, optimised: bool = False) -> IsolatedSession:
        """Return a session of a model, like `IsolatedRuntime.open`; engines are always optimised."""
        return IsolatedSession(self.source(model), self.run_time, f"{self.tasks}:hold")

    def source(self, model: Path | ModelProto) -> ParseRequest:
        """The request to parse a model."""
        module = self.library.module
        assert module is not None, "a library that is installed"
        return ParseRequest(module, model if isinstance(model, Path) else model.SerializeToString())


def require_runtime(runtime: str, run_time: float) -> TensorRtRuntime | None:
    """The runtime for "tensorrt"; None for "onnxruntime".

    Raises UsageError for another name, if TensorRT is not installed, and on a machine without a GPU.
    """
    if runtime not in RUNTIMES:
        raise UsageError(f"Unknown runtime {runtime!r}. Choose {' or '.join(RUNTIMES)}.")
    if runtime != TENSORRT:
        return None
    library = _installed()
    if library is None:
        raise UsageError(f"TensorRT is not installed. Install it: {install_command('tensorrt')}")
    why = _gpu_missing(MODULE)
    if why:
        build = command("check", "IN", "--target", "tensorrt", "--build")
        raise UsageError(
            f"{library.title} needs an NVIDIA GPU ({why}). Run this on a machine with one. "
            f"A build needs no GPU: {build}"
        )
    return TensorRtRuntime(library, run_time, MODULE)


def find_runtime(run_time: float) -> TensorRtRuntime:
    """The installed TensorRT, for proofs.  Raises RuntimeMissing if it is not installed or finds no GPU."""
    library = _installed()
    if library is None:
        raise RuntimeMissing("TensorRT is not installed")
    if _gpu_missing(MODULE):
        raise RuntimeMissing(f"{library.title} finds no GPU")
    return TensorRtRuntime(library, run_time, MODULE)


def _installed() -> Library | None:
    return next((one for one in LIBRARIES if one.module is not None), None)


@cache
def _gpu_missing(tasks: str) -> str:
    """Why no GPU can be used, as a clause; empty if one can."""
    child = acquire_worker()
    try:
        result = child.run(Task(f"{tasks}:gpu", None, DEFAULT_TIMEOUT, ALL_MEMORY))
    finally:
        release_worker(child)
    if isinstance(result, TaskFailure):
        return f"NVIDIA's driver cannot be queried: {session_error_of(result, DEFAULT_TIMEOUT).message.rstrip('.')}"
    return str(result.value["why"])
