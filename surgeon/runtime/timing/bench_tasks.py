"""The task of a worker that measures one batch of loads, and its request: models, inputs and settings."""

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.runtime.processes.worker_main import ReportProgress, reset_cpu_limit
from surgeon.runtime.sessions.ep_library import PluginProvider
from surgeon.runtime.sessions.ort_session import SessionError, TimedSession
from surgeon.runtime.tensorrt.isolated_engine import TensorRtRuntime
from surgeon.runtime.timing.idle_share import IdleMeter
from surgeon.runtime.timing.rounds import WARM_UP, Run, run_interleaved, undisturbed

if TYPE_CHECKING:
    from surgeon.runtime.tensorrt.engine import GpuEngine


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Models to measure, and how; see `bench`."""

    names: Sequence[str]
    """Names of the models, the original first."""
    sources: Sequence[Path | ModelProto]
    """The models."""
    feeds: Sequence[Mapping[str, np.ndarray]]
    """The inputs by shape; all models get the same."""
    threads: int = 0
    """Threads of one operator; 0 for one per physical core."""
    provider: str | PluginProvider = "CPUExecutionProvider"
    """Execution provider."""
    libraries: Sequence[str] = ()
    """Libraries of custom ops."""
    rounds: int = 3
    """Rounds of each load."""
    cpu_time: bool = False
    """Whether to measure processor time."""
    run_time: float = 120.0
    """Limit of processor time, in seconds, to load a model and for each run."""
    engines: TensorRtRuntime | None = None
    """TensorRT, if models run under it."""
    loads: int = 6
    """Number of loads."""
    order: int = 0
    """Seed of the order of the models."""

    @property
    def longest(self) -> float:
        """Seconds after which the batch cannot be at work any more."""
        runs = 1 + len(self.feeds) * (self.rounds + WARM_UP + 1)
        return self.run_time * self.loads * len(self.names) * runs


def measure(asked: LoadRequest, note: ReportProgress) -> tuple[dict[str, Any], list[Any]]:
    """Load all models anew for each load, and time them in rounds at each shape.

    Returns the arrays of `LatencySamples`; or who does not run at which shape, and why.  TensorRT builds an engine in
    minutes, so it is built once for all loads.  Raises UsageError for a model that cannot be loaded.
    """
    clock = time.thread_time if asked.cpu_time else time.perf_counter
    shuffled = random.Random(asked.order)
    seconds: list[list[list[list[float]]]] = []
    began, idle = [], []
    with ExitStack() as stack, undisturbed():
        batch: list[list[Run]] = []
        for _ in range(asked.loads):
            meter, order = IdleMeter(), shuffled.sample(range(len(asked.names)), len(asked.names))
            began.append(time.time())
            if not (asked.engines and batch):
                stack.close()
                batch = []  # its functions hold the sessions
                try:
                    batch = _loaded(asked, order, stack, note)
                except _CannotRun as refused:
                    return {"refused": refused.args}, []
            note({})
            reset_cpu_limit(asked.longest)
            times = [run_interleaved(runs, clock=clock, rounds=asked.rounds, order=order) for runs in batch]
            seconds.append(times)
            idle.append(meter.share())
    return {}, [np.asarray(one, np.float64) for one in (seconds, began, idle)]


class _CannotRun(Exception):
    """A model rejects inputs: its name, the index of the shape and the reason."""


def _loaded(asked: LoadRequest, order: Sequence[int], stack: ExitStack, note: ReportProgress) -> list[list[Run]]:
    """Functions that run each model, by shape; each has run once.  order: in which models are loaded."""
    runs: list[list[Run]] = [[lambda: None] * len(asked.names) for _ in asked.feeds]
    for index in order:
        name = asked.names[index]
        note({"model": name})
        reset_cpu_limit(asked.run_time)
        try:
            session = _opened(asked, asked.sources[index], note)
        except SessionError as refused:
            line, what = refused.message.rstrip("."), "TensorRT" if asked.engines else "ONNX Runtime"
            raise UsageError(f"{what} cannot load {name}: {line}.") from refused
        stack.push(session)
        for shape, feeds in enumerate(asked.feeds):
            reset_cpu_limit(asked.run_time)
            runs[shape][index] = session.bind_inputs(feeds)
            try:
                runs[shape][index]()
            except SessionError as refused:
                raise _CannotRun(name, shape, refused.message.rstrip(".")) from refused
    return runs


def _opened(asked: LoadRequest, source: Path | ModelProto, note: ReportProgress) -> "TimedSession | GpuEngine":
    """A model in a session.  Raises SessionError."""
    if asked.engines is None:
        return TimedSession(source, asked.libraries, threads=asked.threads, provider=asked.provider)
    from surgeon.runtime.tensorrt.engine import GpuEngine  # not at the top: few benches have a GPU

    return GpuEngine(asked.engines.source(source), note, short=True)
