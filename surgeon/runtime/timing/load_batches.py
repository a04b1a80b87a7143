"""Batches of loads, each in a separate process, spread over time: how `bench` and races of candidates measure."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from surgeon.errors import UsageError
from surgeon.file.model import Model
from surgeon.runtime.processes.worker import ALL_MEMORY, Task, TaskResult, Worker
from surgeon.runtime.timing.idle_share import busy_share, usable_processors
from surgeon.runtime.timing.samples import LatencySamples, intervals

if TYPE_CHECKING:
    from surgeon.runtime.timing.bench_tasks import LoadRequest

MODULE = "surgeon.runtime.timing.bench_tasks"
CPU = "CPUExecutionProvider"
BATCH = 6  # loads of one process: as many as the sign test needs
SPREAD = 15.0  # seconds from the first batch to the last: machines are slow for stretches of 1 to 15 s


def sample_until(
    asked: "LoadRequest", sizes: Sequence[Mapping[str, int]], *, loads: int, seconds: float, precision: float
) -> LatencySamples:
    """Measure in at least this number of loads, then in twice as many, until the ratios to the original are known.

    asked: the models, the original first, and their inputs by shape.  sizes: the dynamic dims by shape, for messages.
    seconds: time for waiting between batches, and for further loads.  precision: stop if the interval of each ratio is
    at most this wide, as a fraction of the ratio and to either side.  More loads do not help on a busy machine.  Raises
    UsageError as `sample` does.
    """
    start, waited, last = time.monotonic(), 0.0, (loads - 1) // BATCH * BATCH
    samples: LatencySamples | None = None
    while True:
        done = 0 if samples is None else len(samples)
        pause = start + min(SPREAD, seconds) * min(1.0, done / max(1, last)) - time.monotonic()
        if pause > 0 and done:
            time.sleep(pause)
            waited += pause
        batch = replace(asked, loads=min(BATCH, loads - done), order=asked.order + done)
        more = sample(batch, sizes)
        samples = more if samples is None else samples + more
        if len(samples) < loads:
            continue
        spent = time.monotonic() - start
        if is_precise_enough(samples, precision) or 2 * spent - waited > seconds or others_share(asked, samples):
            return samples
        loads *= 2


def sample(asked: "LoadRequest", sizes: Sequence[Mapping[str, int]]) -> LatencySamples:
    """Measure one batch of loads in a new process.

    Raises UsageError for a model that cannot be loaded, does not run on the inputs, ends its process or exceeds its
    time; the message names a size that contradicts others.
    """
    from surgeon.runtime.sessions.isolated_session import session_error_of

    child = Worker()
    try:
        task = Task(f"{MODULE}:measure", asked, asked.run_time, ALL_MEMORY, wall_seconds=asked.longest)
        result = child.run(task)
    finally:
        child.end()
    if not isinstance(result, TaskResult):
        line = session_error_of(result, asked.run_time).message
        name = result.last_note.get("model") if isinstance(result.last_note, dict) else None
        raise UsageError(f"{name}: {line[0].lower()}{line[1:]}" if name else line)
    if "refused" in result.value:
        raise _refusal(asked, sizes, *result.value["refused"])
    return LatencySamples(*result.arrays)


def _refusal(asked: "LoadRequest", sizes: Sequence[Mapping[str, int]], name: str, shape: int, why: str) -> UsageError:
    """The error for a model that does not run at a shape; it names a size that contradicts others."""
    from surgeon.runtime.inputs.consistent_sizes import ConsistentSizes

    with Model.open(asked.sources[0]) as model:
        wrong = ConsistentSizes(model, {}).contradicted(sizes[shape])
    if wrong is not None:
        key, formula, size = wrong
        remedy = "Give sizes that agree, or leave out those that follow"
        return UsageError(f"{name} does not run at {key} = {sizes[shape][key]}: {formula} is {size}. {remedy}.")
    made = "Give other sizes with --dim or --at, or your own inputs" if sizes[shape] else "Give other inputs"
    return UsageError(f"{name} does not run on these inputs ({why}). {made}.")


def others_share(asked: "LoadRequest", samples: LatencySamples) -> float:
    """The share of the processors that other processes used, if this makes the samples useless; else 0."""
    on_cpu = asked.engines is None and asked.provider == CPU
    return busy_share(samples.idle, asked.threads, len(usable_processors())) if on_cpu else 0.0


def is_precise_enough(samples: LatencySamples, precision: float) -> bool:
    """Whether every candidate's ratio to the original is known to within `precision`, at each shape and state."""
    _, shapes, candidates, _ = samples.seconds.shape
    pairs = [(index, shape) for index in range(1, candidates) for shape in range(shapes)]
    found = [one for index, shape in pairs for one in intervals(samples, index, shape=shape)]
    return all(one.precision <= precision for one in found)
