"""`surgeon.bench`: compare the latency of models."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from onnx import ModelProto

from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.file.model_like import ModelLike, model_name, opened_to_run
from surgeon.ops.traversal import require_finite_calls
from surgeon.runtime.implementations.implementation import is_python
from surgeon.runtime.run_limits import DEFAULT_TIMEOUT, Inputs, Runtime, as_list, require_run_time
from surgeon.runtime.timing.latency import Bench
from surgeon.runtime.timing.load_batches import others_share, sample_until
from surgeon.versions import runtimes

ROUNDS, SECONDS, PRECISION, LOADS = 3, 30.0, 0.01, 12


def bench(
    original: ModelLike,
    *others: ModelLike,
    inputs: Inputs | Sequence[Inputs] = (),
    dims: Mapping[str, int] | None = None,
    at: Sequence[Mapping[str, int]] = (),
    seed: int = 0,
    threads: int = 0,
    ep: str | None = None,
    ep_library: str | None = None,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    precision: float = PRECISION,
    loads: int = LOADS,
    cpu_time: bool = False,
    custom_ops: Sequence[str | Path] = (),
    run_time: float = DEFAULT_TIMEOUT,
    runtime: Runtime = "onnxruntime",
) -> Bench:
    """Measure the latency of two or more models in paired loads, under ONNX Runtime or TensorRT.

    In each load, all models are loaded anew in another order, run twice to warm up, and then run in turn for some
    rounds, at each shape on the same inputs.  All have the same options, including ONNX Runtime's optimisations.  A
    latency is the median of a load's rounds, because a layout in memory changes latencies more than chance does.

    The loads run in short processes, six in each, spread over 15 s, because a machine may be slow for some seconds.
    Loads in such a state are judged apart.  The number of loads is doubled until each ratio to the original is known
    to within `precision`, as far as `seconds` allow.  If other processes use the processors that several threads need,
    the result is undecided.  Outputs are not compared; use `compare` for that.

    Args:
        original: a path, or a model in memory: a ModelProto, gs.Graph, onnx_ir.Model or ONNXProgram.
        others: the models to compare with it.
        inputs: arrays by input name, or one .npz file of them.  By default, inputs are generated.
        dims: sizes of dynamic dimensions by name, for generated inputs.  A size that follows from others may be left
            out.
        at: sizes of the dynamic dimensions of inputs at one shape to measure.  A size that follows from others may be
            left out.
        seed: seed of the generated inputs and of the order.
        threads: number of threads for one operator; 0 means one per physical core.
        ep: execution provider of ONNX Runtime, for example cpu, cuda, dml or tensorrt.  Default: cpu, or the first one
            of ep_library.
        ep_library: plugin with the execution provider: its Python module, or NAME=PATH of its library.
        rounds: number of rounds of each load.
        seconds: time for further loads and for waiting between loads.
        precision: stop if the 95 % interval of every ratio is at most this wide, as a fraction of the ratio and to
            either side.
        loads: smallest number of loads; fewer than six give no interval.
        cpu_time: measure the CPU time of one thread instead, which depends little on the load of the machine.
        custom_ops: libraries that ONNX Runtime registers.  It cannot time ops that Python files implement.
        run_time: limit of processor time, in seconds, to load a model and for each run.
        runtime: runtime of the models: "onnxruntime", or "tensorrt", which builds engines for the GPU of this machine.

    Returns:
        The times, and the ratio of each model to the original with its interval, by shape.

    Raises:
        ModelFileError: a file cannot be read.
        UsageError: invalid options, inputs that do not fit, a dynamic dimension without a size, or a model that ONNX
            Runtime cannot load or run, or that crashes or takes longer than `run_time`; no GPU for TensorRT.

    Examples:
        >>> import surgeon
        >>> model = "notebooks/models/tiny_distilbert.onnx"
        >>> shapes = [{"sequence": 8}, {"sequence": 16}]
        >>> len(surgeon.bench(model, model, dims={"batch": 1}, at=shapes, loads=1, seconds=0).ratios)
        2
    """
    from surgeon.runtime.sessions.ep_library import find_plugin, short_name
    from surgeon.runtime.sessions.ort_session import require_libraries
    from surgeon.runtime.tensorrt.isolated_engine import require_runtime

    # Not at the top, so that `import surgeon` is fast.
    from surgeon.runtime.timing.bench_inputs import feeds_of, require_same_inputs
    from surgeon.runtime.timing.bench_tasks import LoadRequest

    started = time.perf_counter()
    _require(others, seed, threads, rounds=rounds, loads=loads, seconds=seconds, precision=precision)
    require_run_time(run_time)
    threads = _one_thread(threads) if cpu_time else threads
    engines = require_runtime(runtime, run_time)
    if engines is not None and (threads or cpu_time or (ep or "cpu") != "cpu" or ep_library or custom_ops):
        raise UsageError("Threads, processor time, ep and custom ops do not apply to TensorRT. Leave them out.")
    models = (original, *others)
    names = _names(models)
    for path in filter(is_python, as_list(custom_ops)):
        raise UsageError(f"Ops that a Python file implements cannot be timed: {path}. Give a library of custom ops.")
    libraries = require_libraries(as_list(custom_ops))
    provider = ort_provider(ep or "cpu") if ep_library is None else find_plugin(ep_library, ep)
    wanted = [{**(dims or {}), **shape} for shape in at or [{}]]
    with ExitStack() as stack:
        opened, runnable = zip(*[stack.enter_context(opened_to_run(model)) for model in models], strict=True)
        require_same_inputs(names, [_skeleton(model) for model in opened])
        feeds, shapes = feeds_of(opened, as_list(inputs), wanted, seed)
        what = LoadRequest(
            names,
            [find() for find in runnable],
            feeds,
            threads,
            provider=provider,
            libraries=libraries,
            rounds=rounds,
            cpu_time=cpu_time,
            run_time=run_time,
            engines=engines,
            order=seed,
        )
        samples = sample_until(what, shapes, loads=loads, seconds=seconds, precision=precision)
        busy = others_share(what, samples)
    took = time.perf_counter() - started
    short = short_name(provider)
    found = Bench(tuple(names), samples, tuple(shapes), threads, ep=short, seconds=took, cpu_time=cpu_time, busy=busy)
    return found if engines is None else replace(found, ep="", runtime=engines.library.title)


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


def ort_provider(ep: str) -> str:
    """ONNX Runtime's name of an execution provider; raises UsageError for one that is not installed."""
    from surgeon.runtime.sessions.ep_library import short_name
    from surgeon.runtime.sessions.ort_session import installed_providers

    known = {short_name(name): name for name in installed_providers()}
    short = short_name(ep)
    if short not in known:
        there, packages = ", ".join(sorted(known)), runtimes()
        clash = f" ({' and '.join(packages)} overwrite each other: reinstall one of them)" if packages[1:] else ""
        raise UsageError(f"The installed ONNX Runtime has no execution provider '{ep}'{clash}. Choose one of {there}.")
    return known[short]


def _names(models: Sequence[ModelLike]) -> list[str]:
    return [model_name(model, f"model {place + 1}") for place, model in enumerate(models)]
