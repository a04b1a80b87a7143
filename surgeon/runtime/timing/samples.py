"""Samples of latencies, and their statistics: medians and sign tests over loads, for each state of the machine.

A load is the unit.  A model that is loaded again has another layout in memory, which changes its latency by a few per
cent.  Further rounds of one load measure one layout more precisely, and say nothing about the next load.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, log
from statistics import median
from typing import NamedTuple

import numpy as np

SMALLEST = 0.01  # smaller differences do not matter
WIDEST = 0.05  # an interval around 1 that reaches further hides a difference that matters
STATE = 0.15  # loads that take this much longer than the fastest quarter ran in another state of the machine
FEWEST = 6  # loads for which the sign test gives an interval
FASTER, SLOWER, EQUAL, UNDECIDED = "faster", "slower", "no difference within noise", "undecided"
_WORST_FIRST = (SLOWER, UNDECIDED, EQUAL)
CONFIDENCE = 0.95
_TAIL = 40  # one in so many samples is beyond one end of the interval: (1 - CONFIDENCE) / 2


@dataclass(frozen=True, slots=True, eq=False)
class LatencySamples:
    """The latencies of candidate models, the original first, at several shapes of their inputs.

    Models of one load run in turn, so their latencies are paired.  A candidate that a load leaves out is NaN in it.
    """

    seconds: np.ndarray
    """Seconds of one run, as float64 [load, shape, candidate, round]."""
    began: np.ndarray
    """When each load began, in seconds since 1970, as float64 [load]."""
    idle: np.ndarray
    """Share of the processors that no other process used during each load, as float64 [load]; NaN if unknown."""

    @property
    def log_seconds(self) -> np.ndarray:
        """Logarithms of the medians over the rounds, as float64 [load, shape, candidate]."""
        return np.asarray(np.log(np.median(self.seconds, axis=-1)))

    def __len__(self) -> int:
        """The number of loads."""
        return len(self.seconds)

    def __getitem__(self, loads: np.ndarray) -> "LatencySamples":
        """The loads for which a bool array [load] is true."""
        return LatencySamples(self.seconds[loads], self.began[loads], self.idle[loads])

    def __add__(self, more: "LatencySamples") -> "LatencySamples":
        """These loads, then others of the same shapes, candidates and number of rounds."""
        pairs = (self.seconds, more.seconds), (self.began, more.began), (self.idle, more.idle)
        return LatencySamples(*(np.concatenate(pair) for pair in pairs))


class Interval(NamedTuple):
    """The latency of a candidate divided by that of a reference, in the loads of one state of the machine."""

    ratio: float
    """Median over the loads."""
    low: float
    """Lower end of the 95 % interval; 0 for fewer than six loads."""
    high: float
    """Upper end; infinity for fewer than six loads."""
    loads: int
    """Number of loads."""
    milliseconds: float
    """Median latency of the candidate."""
    reference_milliseconds: float
    """Median latency of the reference."""

    @property
    def precision(self) -> float:
        """Half the width of the interval, divided by the ratio."""
        return (self.high - self.low) / 2 / self.ratio

    @property
    def outcome(self) -> str:
        """ "faster", "slower", "no difference within noise" or "undecided".

        There is a difference if the interval does not contain 1 and the median is at least one per cent from 1.
        Otherwise there is none, unless the interval reaches more than five per cent from 1.
        """
        if self.high < 1 and self.ratio <= 1 - SMALLEST:
            return FASTER
        if self.low > 1 and self.ratio >= 1 + SMALLEST:
            return SLOWER
        return EQUAL if self.low >= 1 - WIDEST and self.high <= 1 + WIDEST else UNDECIDED


def states(samples: LatencySamples, shape: int = 0) -> list[LatencySamples]:
    """The loads by the state of the machine, the fast state first; one element if all are of one state.

    A rented machine may take half as long again for some seconds, and then other candidates win.  The level of a load
    is the geometric mean over the candidates.  The slow state has the loads whose level is more than 15 % above that of
    the fastest quarter.  The latency of the original would not do as the level, because loads in which noise makes it
    slow flatter all others.  With noise of 8 % and 24 loads, 16 % of the intervals of equal models would leave out 1.
    """
    logs = samples.log_seconds[:, shape]
    level = logs[:, ~np.isnan(logs).any(axis=0)].mean(axis=1)
    is_slow = level > np.sort(level)[(len(level) - 1) // 4] + log(1 + STATE)
    return [samples[~is_slow], samples[is_slow]] if is_slow.any() else [samples]


def interval(samples: LatencySamples, candidate: int, reference: int = 0, shape: int = 0) -> Interval:
    """The median of the paired ratios over the loads of one state, with its 95 % interval by the sign test.

    The interval goes from the k-th smallest to the k-th largest ratio.  The number of draws on one side of the true
    median is binomial(n, 1/2).  k is the largest number for which it is below k with a probability of at most 2.5 %
    (Conover, Practical Nonparametric Statistics, 3.2).
    """
    logs = _paired(samples, candidate, reference, shape).log_seconds[:, shape]
    ordered = sorted(logs[:, candidate] - logs[:, reference])
    k = _rank(len(ordered))
    low, high = (exp(ordered[k - 1]), exp(ordered[-k])) if k else (0.0, inf)
    ours, theirs = (1e3 * exp(median(logs[:, index])) for index in (candidate, reference))
    return Interval(exp(median(ordered)), low, high, len(ordered), milliseconds=ours, reference_milliseconds=theirs)


def intervals(samples: LatencySamples, candidate: int, reference: int = 0, shape: int = 0) -> tuple[Interval, ...]:
    """The interval in each state with at least six loads; that of all loads if no state has as many."""
    paired = _paired(samples, candidate, reference, shape)
    judged = [state for state in states(paired, shape) if len(state) >= FEWEST] or [paired]
    return tuple(interval(state, candidate, reference, shape) for state in judged)


def _paired(samples: LatencySamples, candidate: int, reference: int, shape: int) -> LatencySamples:
    """The loads that have both."""
    return samples[~np.isnan(samples.log_seconds[:, shape][:, [candidate, reference]]).any(axis=1)]


def outcome_of(found: Sequence[Interval]) -> str:
    """The outcome of all states: slower or undecided if it is so in one of them, faster if it is so in each."""
    words = {one.outcome for one in found}
    return next((word for word in _WORST_FIRST if word in words), FASTER)


@lru_cache(maxsize=16)
def _rank(count: int) -> int:
    """The largest k for which P(binomial(count, 1/2) < k) is at most one in _TAIL."""
    below, ways, k = 0, 1, 0
    while (below + ways) * _TAIL <= 1 << count:
        below += ways
        k += 1
        ways = ways * (count - k + 1) // k
    return k
