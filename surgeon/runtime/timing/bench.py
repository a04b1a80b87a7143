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
from surgeon.runtime.processes.worker import ALL_MEMORY, Task, TaskResult, Worker, acquire_worker, release_worker
from surgeon.runtime.run_limits import DEFAULT_TIMEOUT, Inputs, Runtime, as_list, require_run_time
from surgeon.runtime.timing.latency import Bench, latencies
from surgeon.runtime.timing.rounds import WARM_UP
from surgeon.versions import runtimes

if TYPE_CHECKING:
    from surgeon.runtime.timing.bench_tasks import LoadRequest, TimingRequest

ROUNDS, SECONDS, PRECISION, LOADS = 20, 30.0, 0.01, 3
MODULE = "surgeon.runtime.timing.bench_tasks"
_SLACK = 3  # how much longer than its first a run may take: the machine does other things beside it


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

    All models are loaded in one child process with the same options, ONNX Runtime's own optimisations on for all.  In
    each round every model runs once, in an order drawn anew, so that what else the machine does falls on all alike; the
    first rounds are dropped.  There are at least `rounds`, then more until each ratio to the original is known to
    within `precision`, or `seconds` are over.  All of this happens in `loads` parts, and for each of them all models
    are loaded anew in another order, for where their memory comes to lie makes a difference of a few per cent.  What
    the models answer is not compared: `compare` does that.

    Args:
        original: a path, a ModelProto or a gs.Graph.
        others: others, likewise.
        inputs: arrays by input name, or one .npz file of them; without, inputs are made to fit the graph.
        dims: sizes of free dimensions by name, for inputs that are made.
        seed: of the inputs that are made, and of the order.
        threads: number of threads for one operator; 0 means one per physical core.
        ep: execution provider of ONNX Runtime, for example cpu, cuda, dml or tensorrt.
        rounds: smallest number of rounds.
        seconds: time for further rounds, without the time to load the models.
        precision: stop if the 95 % interval of every ratio is at most this wide, as a fraction of the ratio and to
            either side.
        loads: number of times to load the models.
        cpu_time: measure the CPU time of one thread instead, which depends little on the load of the machine.
        custom_ops: libraries that ONNX Runtime registers.
        run_time: seconds of processor time that one run of a model may take, and to load it.
        runtime: runtime of the models: "onnxruntime", or "tensorrt", which builds engines for the GPU of this machine.

    Returns:
        The times, and the ratio of each model to the original with its interval.

    Raises:
        ModelFileError: a file cannot be read.
        UsageError: options that mean nothing, inputs that do not fit, or a model that ONNX Runtime does not load or
            run, or that crashes or takes longer than `run_time`; no GPU for TensorRT.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> few = {"rounds": 2, "loads": 1, "seconds": 0.1}
        >>> len(surgeon.bench(model, model, dims={"batch": 1, "sequence": 8}, **few).ratios)
        1
    """
    from surgeon.runtime.sessions.ort_session import require_libraries
    from surgeon.runtime.tensorrt.isolated_engine import require_runtime

    # Not at the top: `import surgeon` is to be light.
    from surgeon.runtime.timing.bench_inputs import require_same_inputs
    from surgeon.runtime.timing.bench_tasks import LoadRequest, TimingRequest

    started = time.perf_counter()
    _require(others, seed, threads, rounds=rounds, loads=loads, seconds=seconds, precision=precision)
    require_run_time(run_time)
    threads = _one_thread(threads) if cpu_time else threads
    engines = require_runtime(runtime, run_time)
    if engines is not None and (threads or cpu_time or ep != "cpu" or custom_ops):
        raise UsageError("TensorRT runs on the GPU: leave out threads, processor time, ep and custom ops.")
    models = (original, *others)
    names = _names(models)
    sources = [resolve_model(model) for model in models]
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
    """One part, in a worker: the seconds by model and round, and the sizes of dynamic dims."""
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
    """Run a task; raises UsageError if a model ends the worker, or takes all its time."""
    from surgeon.runtime.sessions.isolated_session import session_error_of

    result = child.run(Task(f"{MODULE}:{function}", argument, seconds, ALL_MEMORY))
    if isinstance(result, TaskResult):
        return result
    line = session_error_of(result, run_time).message
    name = result.last_note.get("model") if isinstance(result.last_note, dict) else None
    raise UsageError(f"{name}: {line[0].lower()}{line[1:]}" if name else line)


def _one_thread(threads: int) -> int:
    """The number of threads for processor time; raises UsageError for several, as they wait for each other."""
    if threads > 1:
        raise UsageError(f"Processor time is that of one thread, and {threads} are asked for: leave out one of them.")
    return 1


def _skeleton(model: Model) -> ModelProto:
    """The model without its large payloads.

    Raises ModelFileError where its data are missing or changed, GraphError for functions that cannot be inlined.
    """
    model.check_data(sums=True)
    require_finite_calls(model.skeleton)
    return model.skeleton


def _require(
    others: Sequence[ModelLike], seed: int, threads: int, rounds: int, loads: int, seconds: float, precision: float
) -> None:
    """Raise UsageError for invalid options."""
    if not others:
        raise UsageError("One model is given: give two or more to hold against each other.")
    if seed < 0:
        raise UsageError(f"The seed is {seed}: give a whole number of at least 0.")
    if threads < 0:
        raise UsageError(f"The number of threads is {threads}: give at least 1, or 0 for one on each physical core.")
    if rounds < 1:
        raise UsageError(f"The number of rounds is {rounds}: give at least 1.")
    if loads < 1:
        raise UsageError(f"The models are to be loaded {loads} times: give at least 1.")
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"The time is {seconds} seconds: give a number of at least 0.")
    if not precision >= 0:
        raise UsageError(f"The precision is {precision}: give a number of at least 0, such as 0.01.")


def _provider(ep: str) -> str:
    """ONNX Runtime's name of an execution provider; raises UsageError for one that is not installed."""
    from surgeon.runtime.sessions.ort_session import installed_providers

    known = {name.lower().removesuffix("executionprovider"): name for name in installed_providers()}
    short = ep.lower().removesuffix("executionprovider")
    if short not in known:
        there, packages = ", ".join(sorted(known)), runtimes()
        clash = f" ({' and '.join(packages)} overwrite each other: install one of them anew)" if packages[1:] else ""
        raise UsageError(f"The installed ONNX Runtime has no execution provider '{ep}'{clash}: choose one of {there}.")
    return known[short]


def _names(models: Sequence[ModelLike]) -> list[str]:
    return [model_name(model, f"model {place + 1}") for place, model in enumerate(models)]
