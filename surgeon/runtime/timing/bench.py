"""`surgeon.bench`: compare the latency of models."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, model_name, resolve_model
from surgeon.ops.traversal import require_finite_calls
from surgeon.runtime.implementations.implementation import is_python
from surgeon.runtime.processes.worker import ALL_MEMORY, Task, TaskResult, Worker, acquire_worker, release_worker
from surgeon.runtime.run_limits import DEFAULT_TIMEOUT, Inputs, Runtime, as_list, require_run_time
from surgeon.runtime.timing.latency import Bench, latencies
from surgeon.runtime.timing.rounds import WARM_UP
from surgeon.versions import runtimes

if TYPE_CHECKING:
    from surgeon.runtime.timing.bench_tasks import LoadRequest, TimingRequest

ROUNDS, SECONDS, PRECISION, LOADS = 20, 30.0, 0.01, 3
MODULE = "surgeon.runtime.timing.bench_tasks"
_SLACK = 3  # a run may take this many times its first one, because the machine runs other processes


def bench(
    original: ModelLike,
    *others: ModelLike,
    inputs: Inputs | Sequence[Inputs] = (),
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    threads: int = 0,
    ep: str = "cpu",
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    precision: float = PRECISION,
    loads: int = LOADS,
    cpu_time: bool = False,
    custom_ops: Sequence[str | Path] = (),
    run_time: float = DEFAULT_TIMEOUT,
    runtime: Runtime = "onnxruntime",
) -> Bench:
    """Measure the latency of two or more models in interleaved rounds, under ONNX Runtime or TensorRT.

    All models are loaded in one worker process with the same options, including ONNX Runtime's optimisations.  In each
    round, every model runs once, in a new random order, so that other processes affect all models equally.  The first
    rounds are dropped.  There are at least `rounds` rounds, then more until each ratio to the original is known to
    within `precision`, or `seconds` are over.

    The rounds are divided into `loads` parts.  For each part, all models are loaded again in another order, because the
    addresses of their memory change the latency by a few per cent.  Outputs are not compared; use `compare` for that.

    Args:
        original: a path, a ModelProto or a gs.Graph.
        others: the models to compare with it.
        inputs: arrays by input name, or one .npz file of them.  By default, inputs are generated.
        dims: sizes of dynamic dimensions by name, for generated inputs.
        seed: seed of the generated inputs and of the order.
        threads: number of threads for one operator; 0 means one per physical core.
        ep: execution provider of ONNX Runtime, for example cpu, cuda, dml or tensorrt.
        rounds: smallest number of rounds.
        seconds: time for further rounds, without the time to load the models.
        precision: stop if the 95 % interval of every ratio is at most this wide, as a fraction of the ratio and to
            either side.
        loads: number of times to load the models.
        cpu_time: measure the CPU time of one thread instead, which depends little on the load of the machine.
        custom_ops: libraries that ONNX Runtime registers.  It cannot time ops that Python files implement.
        run_time: limit of processor time, in seconds, to load a model and for each run.
        runtime: runtime of the models: "onnxruntime", or "tensorrt", which builds engines for the GPU of this machine.

    Returns:
        The times, and the ratio of each model to the original with its interval.

    Raises:
        ModelFileError: a file cannot be read.
        UsageError: invalid options, inputs that do not fit, or a model that ONNX Runtime cannot load or run, or that
            crashes or takes longer than `run_time`; no GPU for TensorRT.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> few = {"rounds": 2, "loads": 1, "seconds": 0.1}
        >>> len(surgeon.bench(model, model, dims={"batch": 1, "sequence": 8}, **few).ratios)
        1
    """
    from surgeon.runtime.sessions.ort_session import require_libraries
    from surgeon.runtime.tensorrt.isolated_engine import require_runtime

    # Not at the top, so that `import surgeon` is fast.
    from surgeon.runtime.timing.bench_inputs import require_same_inputs
    from surgeon.runtime.timing.bench_tasks import LoadRequest, TimingRequest

    started = time.perf_counter()
    _require(others, seed, threads, rounds=rounds, loads=loads, seconds=seconds, precision=precision)
    require_run_time(run_time)
    threads = _one_thread(threads) if cpu_time else threads
    engines = require_runtime(runtime, run_time)
    if engines is not None and (threads or cpu_time or ep != "cpu" or custom_ops):
        raise UsageError("Threads, processor time, ep and custom ops do not apply to TensorRT. Leave them out.")
    models = (original, *others)
    names = _names(models)
    sources = [resolve_model(model) for model in models]
    for path in filter(is_python, as_list(custom_ops)):
        raise UsageError(f"Ops that a Python file implements cannot be timed: {path}. Give a library of custom ops.")
    libraries, provider = require_libraries(as_list(custom_ops)), _provider(ep)
    with ExitStack() as stack:
        require_same_inputs(names, [_skeleton(stack.enter_context(Model.open(source))) for source in sources])
    parts: list[list[list[float]]] = []
    sizes: dict[str, int] = {}
    with_what = libraries, threads, provider, as_list(inputs), dict(dims or {}), seed
    for part in range(loads):
        loading = LoadRequest(names, sources, *with_what, order=seed + part, run_time=run_time, engines=engines)
        timing = TimingRequest(ceil(rounds / loads), seconds / loads, precision, cpu_time=cpu_time, order=seed + part)
        times, sizes = _part(loading, timing, run_time)
        parts.append(times)
    found = Bench(
        latencies(names, parts), sizes, threads, ep=ep, seconds=time.perf_counter() - started, cpu_time=cpu_time
    )
    return found if engines is None else replace(found, ep="", runtime=engines.library.title)


def _part(loading: "LoadRequest", timing: "TimingRequest", run_time: float) -> tuple[list[list[float]], dict[str, int]]:
    """Run one part in a worker: the seconds by model and round, and the sizes of dynamic dims."""
    count = len(loading.names)
    child = acquire_worker()
    try:
        loaded = _asked(child, "load", loading, seconds=2 * run_time * count, run_time=run_time)
        least = loaded.value["seconds"] * (timing.rounds + WARM_UP)  # and for further rounds all cores may be at work
        most = _SLACK * (least + timing.seconds * (os.cpu_count() or 1)) + run_time * count
        measured = _asked(child, "measure", timing, seconds=most, run_time=run_time)
        if child.is_alive:
            _asked(child, "let_go", None, seconds=run_time, run_time=run_time)
    finally:
        release_worker(child)
    (times,) = measured.arrays
    return times.tolist(), loaded.value["sizes"]


def _asked(child: Worker, function: str, argument: Any, seconds: float, run_time: float) -> TaskResult:
    """Run a task; raises UsageError if a model ends the worker or exceeds its time."""
    from surgeon.runtime.sessions.isolated_session import session_error_of

    result = child.run(Task(f"{MODULE}:{function}", argument, seconds, ALL_MEMORY))
    if isinstance(result, TaskResult):
        return result
    line = session_error_of(result, run_time).message
    name = result.last_note.get("model") if isinstance(result.last_note, dict) else None
    raise UsageError(f"{name}: {line[0].lower()}{line[1:]}" if name else line)


def _one_thread(threads: int) -> int:
    """The number of threads for processor time; raises UsageError for several, because they wait for each other."""
    if threads > 1:
        raise UsageError(f"Processor time needs one thread, but threads is {threads}. Leave out one of the two.")
    return 1


def _skeleton(model: Model) -> ModelProto:
    """The model without its large payloads.

    Raises ModelFileError if its data are missing or changed, and GraphError for functions that cannot be inlined.
    """
    model.check_data(sums=True)
    require_finite_calls(model.skeleton)
    return model.skeleton


def _require(
    others: Sequence[ModelLike], seed: int, threads: int, rounds: int, loads: int, seconds: float, precision: float
) -> None:
    """Raise UsageError for invalid options."""
    if not others:
        raise UsageError("Only one model is given. Give two or more to compare.")
    if seed < 0:
        raise UsageError(f"Invalid seed {seed}. Give an integer of at least 0.")
    if threads < 0:
        raise UsageError(f"Invalid number of threads {threads}. Give at least 1, or 0 for one per physical core.")
    if rounds < 1:
        raise UsageError(f"Invalid number of rounds {rounds}. Give at least 1.")
    if loads < 1:
        raise UsageError(f"Invalid number of loads {loads}. Give at least 1.")
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"Invalid number of seconds {seconds}. Give at least 0.")
    if not precision >= 0:
        raise UsageError(f"Invalid precision {precision}. Give at least 0, for example 0.01.")


def _provider(ep: str) -> str:
    """ONNX Runtime's name of an execution provider; raises UsageError for one that is not installed."""
    from surgeon.runtime.sessions.ort_session import installed_providers

    known = {name.lower().removesuffix("executionprovider"): name for name in installed_providers()}
    short = ep.lower().removesuffix("executionprovider")
    if short not in known:
        there, packages = ", ".join(sorted(known)), runtimes()
        clash = f" ({' and '.join(packages)} overwrite each other: reinstall one of them)" if packages[1:] else ""
        raise UsageError(f"The installed ONNX Runtime has no execution provider '{ep}'{clash}. Choose one of {there}.")
    return known[short]


def _names(models: Sequence[ModelLike]) -> list[str]:
    return [model_name(model, f"model {place + 1}") for place, model in enumerate(models)]
