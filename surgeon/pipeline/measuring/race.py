"""The search for the fastest variant, as functions over samples: races of variants against the best one so far."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from surgeon.runtime.timing.samples import EQUAL, SLOWER, SMALLEST, Interval, LatencySamples, intervals, outcome_of

ENOUGH, MOST = 12, 24  # loads after which equal variants are as good as one, and after which a race ends


class Racer(Protocol):
    """A model in a race."""

    @property
    def key(self) -> Hashable:
        """Equal for models that become the same graph when they are loaded."""
        ...

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        ...


R = TypeVar("R", bound=Racer)
Sampler = Callable[[Sequence[R]], LatencySamples]
"""Measures a batch of loads of the original, variant 0, and of the given models."""


@dataclass(frozen=True)
class Race(Generic[R]):
    """The result of a race; column 0 of its samples is the original, and the others are its models in order."""

    models: Sequence[R]
    """The best model before the race, and the others."""
    samples: LatencySamples
    """All loads; models that were dropped are NaN in the later ones."""
    ranking: Sequence[R]
    """Models that are neither slower than the best one nor, at any shape, than the original; the winner first."""


def race(models: Sequence[R], sample: Sampler[R], is_over: Callable[[], bool]) -> Race[R]:
    """Measure models in batches of loads, and drop those that are slower than the first or than the original.

    models: the best one so far, and others.  It ends when only one is left, when all others are equal to the first
    within one per cent after 12 loads, after 24 loads, or when `is_over` returns true.
    """
    running = list(range(len(models)))
    samples: LatencySamples | None = None
    while True:
        batch = _placed(sample([models[place] for place in running]), running, len(models))
        samples = batch if samples is None else samples + batch
        running = [place for place in running if not place or not _is_beaten(samples, place + 1, by=1)]
        is_decided = len(samples) >= ENOUGH and all(_is_close(samples, place + 1) for place in running[1:])
        if len(running) == 1 or is_decided or len(samples) >= MOST or is_over():
            return Race(models, samples, [models[place] for place in _ranked(samples, running, models)])


def search(
    start: R,
    neighbours: Callable[[R], Iterable[R]],
    sample: Sampler[R],
    is_over: Callable[[], bool],
    seen: Iterable[Hashable] = (),
) -> list[Race[R]]:
    """Races from a model to faster or smaller neighbours, until no neighbour wins or `is_over` returns true.

    neighbours: makes the models that differ in one form; those that become a graph that was seen are not measured.
    seen: such graphs, for example the original's.  The last race has the winner; none if nothing was to be measured.
    """
    leader, known, races = start, {start.key, *seen}, list[Race[R]]()
    while not is_over():
        others: list[R] = []
        for model in neighbours(leader):
            if model.key not in known:
                known.add(model.key)
                others.append(model)
        if not others and races:
            break
        races.append(race([leader, *others], sample, is_over))
        (winner, *_) = races[-1].ranking
        if winner is leader:
            break
        leader = winner
    return races


def is_bounded(samples: LatencySamples, variant: int, margin: float) -> bool:
    """Whether the latency of a variant is at most 1 + margin of the original's (95 %), at each shape and state."""
    shapes = samples.seconds.shape[1]
    found = [one for shape in range(shapes) for one in intervals(samples, variant, shape=shape)]
    return all(one.high <= 1 + margin for one in found)


def over_shapes(samples: LatencySamples) -> LatencySamples:
    """The samples with the geometric mean over the shapes as their only shape."""
    mean = np.exp(samples.log_seconds.mean(axis=1))
    return LatencySamples(mean[:, None, :, None], samples.began, samples.idle)


def _placed(batch: LatencySamples, running: Sequence[int], count: int) -> LatencySamples:
    """The samples of some models among the columns of all, the original first; the others are NaN."""
    loads, shapes, _, rounds = batch.seconds.shape
    seconds = np.full((loads, shapes, count + 1, rounds), np.nan)
    seconds[:, :, [0, *(place + 1 for place in running)]] = batch.seconds
    return LatencySamples(seconds, batch.began, batch.idle)


def _is_beaten(samples: LatencySamples, column: int, by: int) -> bool:
    """Whether a model is slower than another over all shapes, or than the original at one."""
    shapes = samples.seconds.shape[1]
    against = [intervals(samples, column, shape=shape) for shape in range(shapes)]
    found = [intervals(over_shapes(samples), column, by), *against]
    return any(outcome_of(one) == SLOWER for one in found)


def _is_close(samples: LatencySamples, column: int) -> bool:
    """Whether the ratio of a model to the first is known to within one per cent."""
    return all(one.precision <= SMALLEST for one in intervals(over_shapes(samples), column, 1))


def _is_equal(found: Sequence[Interval]) -> bool:
    """Whether two models take the same time within noise, and their medians within one per cent."""
    return outcome_of(found) == EQUAL and all(one.ratio <= 1 + SMALLEST for one in found)


def _ranked(samples: LatencySamples, running: Sequence[int], models: Sequence[Racer]) -> list[int]:
    """Models in order: of those that equal the fastest, the one with the fewest nodes, then the others by latency.

    Where noise hides a difference, the median decides.
    """
    pooled = over_shapes(samples)
    ratio = {place: intervals(pooled, place + 1)[0].ratio for place in running}
    by_latency = sorted(running, key=lambda place: ratio[place])
    best = by_latency[0]
    found = {place: intervals(pooled, place + 1, best + 1) for place in by_latency}
    equal = [best, *(place for place in by_latency if _is_equal(found[place]))]
    winner = min(equal, key=lambda place: (models[place].nodes, ratio[place]))
    return [winner, *(place for place in by_latency if place != winner)]
