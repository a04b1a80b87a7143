"""Interleaved rounds: each function runs once per round, in random order, so that all run under the same conditions."""

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

WARM_UP = 3  # rounds that are dropped: arenas grow, kernels pack their weights, caches fill
SHORTEST = 1e-3  # smallest time of one clock reading, in seconds; shorter functions run several times
MAX_REPEATS = 1000
CHECKED_EVERY = 5  # rounds between two checks whether they are enough

Run = Callable[[], None]


def run_interleaved(
    runs: Sequence[Run],
    *,
    clock: Callable[[], float],
    rounds: int,
    seconds: float,
    enough: Callable[[Sequence[Sequence[float]]], bool],
    seed: int = 0,
    wall: Callable[[], float] | None = None,
) -> list[list[float]]:
    """Return the seconds of each run in each round: one list per run, all equally long, in the order of the rounds.

    There are at least `rounds` rounds, then more until `enough` returns True for the measured times, or `seconds` are
    over since the call.  wall: the clock for `seconds`, by default `clock`.  One reading spans the same number of calls
    for all runs, so many that the shortest run takes a millisecond.
    """
    shuffled = random.Random(seed)
    times: list[list[float]] = [[] for _ in runs]
    places = list(range(len(runs)))
    wall = wall or clock
    started = wall()
    with _undisturbed():
        shortest = min(min(_seconds(run, 1, clock) for run in runs) for _ in range(WARM_UP))
        repeats = max(1, min(MAX_REPEATS, round(SHORTEST / shortest))) if shortest > 0 else MAX_REPEATS
        while True:
            shuffled.shuffle(places)
            for place in places:
                times[place].append(_seconds(runs[place], repeats, clock))
            done = len(times[0])
            if done < rounds:
                continue
            if wall() - started >= seconds or (done % CHECKED_EVERY == 0 and enough(times)):
                return times


def _seconds(run: Run, repeats: int, clock: Callable[[], float]) -> float:
    """The seconds of one call."""
    start = clock()
    for _ in range(repeats):
        run()
    return (clock() - start) / repeats


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Disable garbage collection inside a `with`."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
