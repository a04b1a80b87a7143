"""`surgeon.bench`: how long models take under ONNX Runtime, held against each other."""

import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import ModelProto

from surgeon.benching.result import Bench, Latency, ratio_of
from surgeon.benching.rounds import interleaved
from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.rewriting.options import paths_of

if TYPE_CHECKING:
    from surgeon.running.runtime import TimedSession

ROUNDS, SECONDS, PRECISION, LOADS = 20, 30.0, 0.01, 3
Source = str | os.PathLike[str] | ModelProto


def bench(
    original: Source,
    *others: Source,
    inputs: str | Path | Sequence[str | Path] = (),
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
) -> Bench:
    """Measure the latency of two or more models under ONNX Runtime in interleaved rounds; each is a path or ModelProto.

    All models are loaded in this process with the same options, ONNX Runtime's own optimisations on for all.  In each
    round every model runs once, in an order drawn anew, so that what else the machine does falls on all alike; the
    first rounds are dropped.  There are at least `rounds`, then more until each ratio to the original is known to
    within `precision`, or `seconds` are over.  All of this happens in `loads` parts, and for each of them all models
    are loaded anew in another order, for where their memory comes to lie makes a difference of a few per cent.
    What the models answer is not compared: `compare` does that.

    inputs      one .npz file with an array for each input; without, inputs are made to fit the graph
    dims        sizes of free dimensions by name, for inputs that are made
    seed        of the inputs that are made, and of the order
    threads     that one operator may use, 0 for as many as there are physical cores
    ep          the execution provider: cpu, cuda, dml, tensorrt, or any that the installed ONNX Runtime has
    seconds     for the rounds; loading comes on top
    precision   half the width of the ratio's 95 % interval, by the ratio
    loads       how often the models are loaded
    cpu_time    measure the processor time of one thread instead, which hardly depends on what else the machine does
    custom_ops  libraries that ONNX Runtime registers

    Raises ModelFileError for a file that cannot be read, UsageError for options that mean nothing, inputs that do not
    fit, and a model that ONNX Runtime does not load or run.
    """
    from surgeon.benching.feeds import prepared, require_same_inputs  # not at the top: `import surgeon` is to be light
    from surgeon.running.runtime import require_libraries

    started = time.perf_counter()
    _require(others, seed, threads, rounds, loads, seconds, precision)
    threads = _one_thread(threads) if cpu_time else threads
    models = (original, *others)
    names = _names(models)
    sources = [model if isinstance(model, ModelProto) else Path(os.path.abspath(model)) for model in models]
    libraries, provider = require_libraries(paths_of(custom_ops)), _provider(ep)
    with ExitStack() as stack:
        skeletons = [_skeleton(stack.enter_context(Model.open(source))) for source in sources]
        require_same_inputs(names, skeletons)
        parts = []
        for part in range(loads):
            with ExitStack() as loaded:
                sessions = _load(names, sources, loaded, seed + part, (libraries, threads, provider))
                runs, sizes = prepared(sessions, skeletons, paths_of(inputs), dims or {}, seed)
                times = interleaved(
                    runs,
                    clock=time.thread_time if cpu_time else time.perf_counter,
                    wall=time.perf_counter,
                    rounds=ceil(rounds / loads),
                    seconds=seconds / loads,
                    enough=lambda so_far: _precise(so_far, precision),
                    seed=seed + part,
                )
                del runs  # they hold the sessions
            parts.append(times)
    return Bench(_latencies(names, parts), sizes, threads, ep, time.perf_counter() - started, cpu_time)


def _one_thread(threads: int) -> int:
    """The number of threads for processor time; raises UsageError for several, as they wait for each other."""
    if threads > 1:
        raise UsageError(f"Processor time is that of one thread, and {threads} are asked for: leave out one of them.")
    return 1


def _skeleton(model: Model) -> ModelProto:
    """The model without its large payloads; raises ModelFileError where its data are not there."""
    model.check_data()
    return model.skeleton


def _load(
    names: Sequence[str],
    sources: Sequence[Path | ModelProto],
    stack: ExitStack,
    seed: int,
    settings: tuple[Sequence[str], int, str],
) -> "list[tuple[str, TimedSession]]":
    """The models by name in their order, loaded in a random one; raises UsageError where ONNX Runtime refuses one.

    settings: the libraries of custom ops, the number of threads and the provider.
    """
    from surgeon.running.runtime import SessionError, TimedSession

    libraries, threads, provider = settings
    sessions: dict[int, TimedSession] = {}
    for place in random.Random(seed).sample(range(len(sources)), len(sources)):
        try:
            session = TimedSession(sources[place], libraries, threads=threads, provider=provider)
        except SessionError as refused:
            line = refused.line.rstrip(".")
            raise UsageError(f"ONNX Runtime does not load {names[place]} ({line}): bench models that run.") from refused
        sessions[place] = stack.enter_context(session)
    return [(name, sessions[place]) for place, name in enumerate(names)]


def _require(
    others: Sequence[Source], seed: int, threads: int, rounds: int, loads: int, seconds: float, precision: float
) -> None:
    """Raise UsageError for options that mean nothing."""
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
    from surgeon.running.runtime import providers

    known = {name.lower().removesuffix("executionprovider"): name for name in providers()}
    short = ep.lower().removesuffix("executionprovider")
    if short not in known:
        there = ", ".join(sorted(known))
        raise UsageError(f"The installed ONNX Runtime has no execution provider '{ep}': choose one of {there}.")
    return known[short]


def _names(models: Sequence[Source]) -> list[str]:
    return [
        f"model {place + 1}" if isinstance(model, ModelProto) else os.fspath(model)
        for place, model in enumerate(models)
    ]


def _latencies(names: Sequence[str], parts: Sequence[Sequence[Sequence[float]]]) -> tuple[Latency, ...]:
    """The milliseconds of each model from the seconds by part, model and round."""
    return tuple(
        Latency(name, tuple(tuple(seconds * 1e3 for seconds in times[place]) for times in parts))
        for place, name in enumerate(names)
    )


def _precise(times: Sequence[Sequence[float]], precision: float) -> bool:
    """Whether every model's ratio to the first is known well enough."""
    first, *others = _latencies([""] * len(times), [times])
    return all(ratio_of(other, first).precision <= precision for other in others)
