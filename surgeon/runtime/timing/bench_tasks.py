"""Tasks of a worker for one part of a benchmark: load all models, run each once, and time them in rounds."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.runtime.processes.worker_main import ReportProgress, reset_cpu_limit
from surgeon.runtime.run_limits import Inputs
from surgeon.runtime.sessions.ort_session import SessionError, TimedSession
from surgeon.runtime.tensorrt.isolated_engine import TensorRtRuntime
from surgeon.runtime.timing.bench_inputs import TimedModel, bind_inputs
from surgeon.runtime.timing.latency import is_precise_enough
from surgeon.runtime.timing.rounds import Run, run_interleaved

if TYPE_CHECKING:
    from surgeon.runtime.tensorrt.engine import GpuEngine


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Models to load for a benchmark; see `bench`."""

    names: Sequence[str]
    """Names of the models."""
    sources: Sequence[Path | ModelProto]
    """The models."""
    libraries: Sequence[str]
    """Libraries of custom ops."""
    threads: int
    """Threads of one operator; 0 for one per physical core."""
    provider: str
    """Execution provider."""
    inputs: Sequence[Inputs]
    """The user's inputs; empty to generate them."""
    dims: Mapping[str, int]
    """Dynamic dims by name."""
    seed: int
    """Seed of generated inputs."""
    order: int
    """Seed of the order in which models are loaded."""
    run_time: float
    """Limit of processor time, in seconds, to load a model and for each run."""
    engines: TensorRtRuntime | None = None
    """TensorRT, if models run under it."""


@dataclass(frozen=True, slots=True)
class TimingRequest:
    """Settings to time the loaded models; see `bench`."""

    rounds: int
    """Number of rounds."""
    seconds: float
    """Time for all rounds."""
    precision: float
    """Stop when half the width of the 95 % interval is at most this share of the ratio."""
    cpu_time: bool
    """Whether to measure processor time."""
    order: int
    """Seed of the order of the models in a round."""


_stack = ExitStack()
_runs: list[Run] = []


def load(asked: LoadRequest, note: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Load all models and run each once.  Returns the sizes of dynamic dims, and the processor time of the runs.

    Raises UsageError for a model that ONNX Runtime cannot load or run, and for inputs that do not fit.
    """
    let_go(None, note)

    def at(name: str) -> None:
        note({"model": name})
        reset_cpu_limit(asked.run_time)

    with ExitStack() as opened, ExitStack() as loaded:
        models = [opened.enter_context(Model.open(source)) for source in asked.sources]
        sessions = _load(asked, loaded, at, note)
        start = time.process_time()
        runs, sizes = bind_inputs(sessions, models, asked.inputs, dims=asked.dims, seed=asked.seed, at=at)
        seconds = time.process_time() - start
        _stack.push(loaded.pop_all())  # after an error, no model stays loaded
    note({})
    _runs.extend(runs)
    return {"sizes": sizes, "seconds": seconds}, []


def _load(
    asked: LoadRequest, stack: ExitStack, at: Callable[[str], None], note: ReportProgress
) -> list[tuple[str, TimedModel]]:
    """The models with their names, loaded in random order.  at: gets the name of each before it is loaded."""
    sessions: dict[int, TimedModel] = {}
    for place in random.Random(asked.order).sample(range(len(asked.sources)), len(asked.sources)):
        at(asked.names[place])
        try:
            session = _opened(asked, asked.sources[place], note)
        except SessionError as refused:
            line, what = refused.message.rstrip("."), "TensorRT" if asked.engines else "ONNX Runtime"
            raise UsageError(f"{what} cannot load {asked.names[place]}: {line}.") from refused
        stack.enter_context(session)
        sessions[place] = session
    return [(name, sessions[place]) for place, name in enumerate(asked.names)]


def _opened(asked: LoadRequest, source: Path | ModelProto, note: ReportProgress) -> "TimedSession | GpuEngine":
    """A model in a session.  Raises SessionError."""
    if asked.engines is None:
        return TimedSession(source, asked.libraries, threads=asked.threads, provider=asked.provider)
    from surgeon.runtime.tensorrt.engine import GpuEngine  # not at the top: few benches have a GPU

    return GpuEngine(asked.engines.source(source), note, short=True)


def measure(asked: TimingRequest, _: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Time the loaded models.  Returns the seconds by model and round."""
    times = run_interleaved(
        _runs,
        clock=time.thread_time if asked.cpu_time else time.perf_counter,
        wall=time.perf_counter,
        rounds=asked.rounds,
        seconds=asked.seconds,
        enough=lambda so_far: is_precise_enough(so_far, asked.precision),
        seed=asked.order,
    )
    return {}, [np.asarray(times, np.float64)]


def let_go(_: None, __: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Release the models and their sessions."""
    _runs.clear()
    _stack.close()
    return {}, []
