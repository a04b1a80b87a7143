"""Rounds of one load: each function runs once per round, in alternating order, so that all run under one condition."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

WARM_UP = 2  # runs that are dropped: arenas grow, kernels pack their weights, caches fill
SHORTEST = 1e-3  # smallest time of one clock reading, in seconds; shorter functions run several times
MAX_REPEATS = 1000

Run = Callable[[], None]


def run_interleaved(
    runs: Sequence[Run], *, clock: Callable[[], float], rounds: int, order: Sequence[int]
) -> list[list[float]]:
    """Return the seconds of each run in each round: one list per run, all equally long, in the order of the rounds.

    order: the indices of the runs in the first round, reversed in every second one.  One reading spans the same number
    of calls for all runs, so many that the shortest run takes a millisecond.
    """
    times: list[list[float]] = [[] for _ in runs]
    shortest = min(min(_seconds(runs[index], 1, clock) for index in order) for _ in range(WARM_UP))
    repeats = max(1, min(MAX_REPEATS, round(SHORTEST / shortest))) if shortest > 0 else MAX_REPEATS
    for number in range(rounds):
        for index in order[:: -1 if number % 2 else 1]:
            times[index].append(_seconds(runs[index], repeats, clock))
    return times


def _seconds(run: Run, repeats: int, clock: Callable[[], float]) -> float:
    """The seconds of one call."""
    start = clock()
    for _ in range(repeats):
        run()
    return (clock() - start) / repeats


@contextmanager
def undisturbed() -> Iterator[None]:
    """Disable garbage collection inside a `with`."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
