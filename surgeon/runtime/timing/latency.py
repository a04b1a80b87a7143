"""Results of a benchmark: the latency of each model, and the paired ratio of any two."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import inf
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from surgeon.result_base import ResultBase, json_of

SMALLEST = 0.01  # smaller differences do not matter, and also occur between two loads of the same file
FASTER, SLOWER, EQUAL = "faster", "slower", "no difference within noise"
CONFIDENCE = 0.95
_TAIL = 40  # one in so many samples is beyond one end of the interval: (1 - CONFIDENCE) / 2


class Interval(NamedTuple):
    """A median with a 95 % confidence interval."""

    median: float
    """The median."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""


def interval_of(numbers: Sequence[float]) -> Interval:
    """Return the median and its confidence interval; 0 to infinity for fewer than six numbers.

    The interval goes from the k-th smallest to the k-th largest number.  The number of draws on one side of the true
    median is binomial(n, 1/2).  k is the largest number for which it is below k with a probability of at most 2.5 %
    (Conover, Practical Nonparametric Statistics, 3.2).
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


@dataclass(frozen=True, slots=True)
class Latency:
    """The latency of one model."""

    name: str
    """Name of the model."""
    loads: tuple[tuple[float, ...], ...]
    """Milliseconds of one run, by load of the model and by round."""

    @property
    def milliseconds(self) -> tuple[float, ...]:
        """Milliseconds of all rounds."""
        return tuple(chain.from_iterable(self.loads))

    def percentile(self, share: float) -> float:
        """The milliseconds within which `share` per cent of the rounds stay; 50 gives the median."""
        return float(np.percentile(self.milliseconds, share))

    @property
    def median(self) -> float:
        """The median in milliseconds."""
        return self.percentile(50)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        shares = {f"p{share}": self.percentile(share) for share in (5, 25, 75, 95)}
        return {"model": self.name, "median_ms": self.median, **shares, "ms": [list(load) for load in self.loads]}


@dataclass(frozen=True, slots=True)
class LatencyRatio:
    """The latency of a model relative to another.

    The interval is that of the sign test, which assumes independent rounds, extended to the median of each load.
    """

    model: str
    """Name of the model."""
    reference: str
    """Name of the model that it is compared with."""
    ratio: float
    """Median of the ratio over all rounds."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    """Upper end of its 95 % interval."""

    @property
    def verdict(self) -> str:
        """ "faster", "slower", or "no difference within noise".

        There is a difference if the interval does not contain 1 and the median is at least one per cent from 1.
        """
        if self.high < 1 and self.ratio <= 1 - SMALLEST:
            return FASTER
        if self.low > 1 and self.ratio >= 1 + SMALLEST:
            return SLOWER
        return EQUAL

    @property
    def precision(self) -> float:
        """Half the width of the interval, divided by the ratio."""
        return (self.high - self.low) / 2 / self.ratio if self.ratio else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; an unknown end is None."""
        high = self.high if self.high < float("inf") else None
        return {**json_of(self, "model reference ratio low"), "high": high, "verdict": self.verdict}


@dataclass(frozen=True, slots=True)
class Bench(ResultBase):
    """The result of a benchmark."""

    models: tuple[Latency, ...]
    """Latencies in the given order; the others are compared with the first."""
    sizes: Mapping[str, int]
    """Dynamic dims of the inputs; empty if the user gave inputs, or none is dynamic."""
    threads: int
    """Threads of one operator; 0 for one per physical core."""
    ep: str
    """Execution provider; "" if not under ONNX Runtime."""
    seconds: float
    """Total duration, with loading."""
    cpu_time: bool = False
    """Whether processor time of one thread was measured."""
    runtime: str = "ONNX Runtime"
    """The runtime of the models."""

    @property
    def rounds(self) -> int:
        """The number of measured rounds."""
        return len(self.models[0].milliseconds)

    @property
    def ratios(self) -> tuple[LatencyRatio, ...]:
        """The ratio of each other model to the first."""
        return tuple(self.ratio(place) for place in range(1, len(self.models)))

    def ratio(self, model: int = 1, reference: int = 0) -> LatencyRatio:
        """The paired ratio of two models, by their indices."""
        return ratio_of(self.models[model], self.models[reference])

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            **json_of(self, "models ratios"),
            "interval": {"confidence": CONFIDENCE, "method": "sign test, and the medians of the loads"},
            "loads": len(self.models[0].loads),
            "threads": self.threads or None,
            "ep": self.ep or None,
            **json_of(self, "rounds runtime cpu_time sizes seconds"),
        }


def ratio_of(model: Latency, reference: Latency) -> LatencyRatio:
    """Return the paired ratio of two models that ran in the same rounds."""
    loads = [
        [one / other for one, other in zip(ours, theirs, strict=True)]
        for ours, theirs in zip(model.loads, reference.loads, strict=True)
    ]
    found = interval_of(list(chain.from_iterable(loads)))
    medians = [median(load) for load in loads]
    return LatencyRatio(
        model.name, reference.name, found.median, low=min(found.low, *medians), high=max(found.high, *medians)
    )


def latencies(names: Sequence[str], parts: Sequence[Sequence[Sequence[float]]]) -> tuple[Latency, ...]:
    """The milliseconds of each model from the seconds by part, model and round."""
    return tuple(
        Latency(name, tuple(tuple(seconds * 1e3 for seconds in times[place]) for times in parts))
        for place, name in enumerate(names)
    )


def is_precise_enough(times: Sequence[Sequence[float]], precision: float) -> bool:
    """Whether every model's ratio to the first is known to within `precision`.  times: seconds by model and round."""
    first, *others = latencies([""] * len(times), [times])
    return all(ratio_of(other, first).precision <= precision for other in others)


def milliseconds_text(milliseconds: float) -> str:
    """A latency with four significant digits."""
    places = 3 if milliseconds < 10 else 2 if milliseconds < 100 else 1
    return f"{milliseconds:.{places}f}"


def short_names(names: list[str]) -> list[str]:
    """File names without their folder, if it is the same for all."""
    folders = {os.path.dirname(name) for name in names}
    return [os.path.basename(name) for name in names] if len(folders) == 1 else names
