"""The median of some numbers with a confidence interval, from the sign test: no assumption on how they are spread."""

from collections.abc import Sequence
from functools import lru_cache
from math import inf
from statistics import median
from typing import NamedTuple

CONFIDENCE = 0.95
_TAIL = 40  # one in so many samples lies beyond one end of the interval: (1 - CONFIDENCE) / 2


class Interval(NamedTuple):
    """A median, and the ends of the interval that holds the true one in 95 of 100 cases."""

    median: float
    low: float
    high: float


def interval_of(numbers: Sequence[float]) -> Interval:
    """Return the median and its confidence interval; 0 to infinity for fewer than six numbers, which tell too little.

    The interval goes from the k-th smallest to the k-th largest number, k the largest for which at most 2.5 % of
    series of independent draws have fewer than k on one side of the true median: binomial(n, 1/2), exactly (see
    Conover, Practical Nonparametric Statistics, 3.2).
    """
    ordered = sorted(numbers)
    k = _rank(len(ordered))
    low, high = (ordered[k - 1], ordered[-k]) if k else (0.0, inf)
    return Interval(median(ordered), low, high)


@lru_cache(maxsize=16)
def _rank(count: int) -> int:
    """The largest k for which P(binomial(count, 1/2) < k) is at most one in _TAIL."""
    below, ways, k = 0, 1, 0
    while (below + ways) * _TAIL <= 1 << count:
        below += ways
        k += 1
        ways = ways * (count - k + 1) // k
    return k
