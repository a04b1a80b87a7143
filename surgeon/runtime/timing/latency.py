"""Results of a benchmark: the latency of each model, and the paired ratio of any two."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from surgeon.result_base import ResultBase, json_of
from surgeon.runtime.timing.samples import CONFIDENCE, UNDECIDED, Interval, LatencySamples, intervals, outcome_of


@dataclass(frozen=True, slots=True)
class Latency:
    """The latency of one model at one shape."""

    name: str
    """Name of the model."""
    loads: tuple[tuple[float, ...], ...]
    """Milliseconds of one run, by load of the model and by round."""
    sizes: Mapping[str, int]
    """Dynamic dims of the inputs."""

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
        loads = [list(load) for load in self.loads]
        return {"model": self.name, "sizes": dict(self.sizes), "median_ms": self.median, **shares, "ms": loads}


@dataclass(frozen=True, slots=True)
class LatencyRatio:
    """The latency of a model relative to another, at one shape."""

    model: str
    """Name of the model."""
    reference: str
    """Name of the model that it is compared with."""
    sizes: Mapping[str, int]
    """Dynamic dims of the inputs."""
    states: tuple[Interval, ...]
    """The ratio in each state of the machine that has six loads or more, the fast state first."""
    is_busy: bool = False
    """Whether other processes left too few processors for several threads."""

    @property
    def ratio(self) -> float:
        """Median of the ratio over the loads of the first state."""
        return self.states[0].ratio

    @property
    def low(self) -> float:
        """Lower end of its 95 % interval."""
        return self.states[0].low

    @property
    def high(self) -> float:
        """Upper end of its 95 % interval."""
        return self.states[0].high

    @property
    def verdict(self) -> str:
        """ "faster" or "slower", "no difference within noise", or "undecided".

        A model is slower if it is so in one state, and faster if it is so in each.  There is a difference if the
        interval does not contain 1 and the median is at least one per cent from 1.  It is undecided if the interval
        contains 1 and reaches more than five per cent from it, for fewer than six loads, and on a busy machine.
        """
        return UNDECIDED if self.is_busy else outcome_of(self.states)

    @property
    def precision(self) -> float:
        """Half the width of the widest interval, divided by its ratio."""
        return max(state.precision for state in self.states)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; an unknown end is None."""
        states = [_interval_dict(state) for state in self.states]
        return {**json_of(self, "model reference"), **states[0], **json_of(self, "verdict sizes"), "states": states}


@dataclass(frozen=True, slots=True, eq=False)
class Bench(ResultBase):
    """The result of a benchmark."""

    names: tuple[str, ...]
    """Names of the models, the original first; the others are compared with it."""
    samples: LatencySamples
    """Latencies by load, shape, model and round."""
    shapes: tuple[Mapping[str, int], ...]
    """Dynamic dims of the inputs, by shape; empty if the user gave inputs, or none is dynamic."""
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
    busy: float = 0.0
    """Share of the processors that other processes used, if too few were left for several threads; else 0."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Dynamic dims of the inputs of the first shape."""
        return self.shapes[0]

    @property
    def rounds(self) -> int:
        """The number of measured rounds at each shape."""
        return len(self.samples) * int(self.samples.seconds.shape[-1])

    @property
    def models(self) -> tuple[Latency, ...]:
        """Latencies in the given order, first those of the first shape."""
        times = 1e3 * self.samples.seconds
        return tuple(
            Latency(name, tuple(map(tuple, times[:, shape, index].tolist())), sizes)
            for shape, sizes in enumerate(self.shapes)
            for index, name in enumerate(self.names)
        )

    @property
    def ratios(self) -> tuple[LatencyRatio, ...]:
        """The ratio of each other model to the first, first those of the first shape."""
        pairs = [(index, shape) for shape in range(len(self.shapes)) for index in range(1, len(self.names))]
        return tuple(self.ratio(index, shape=shape) for index, shape in pairs)

    def ratio(self, model: int = 1, reference: int = 0, shape: int = 0) -> LatencyRatio:
        """The paired ratio of two models at a shape, all by their indices."""
        found = intervals(self.samples, model, reference, shape)
        names = self.names[model], self.names[reference]
        return LatencyRatio(*names, self.shapes[shape], found, is_busy=self.busy > 0)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            **json_of(self, "models ratios"),
            "interval": {"confidence": CONFIDENCE, "method": "sign test over the medians of the loads"},
            "loads": len(self.samples),
            "threads": self.threads or None,
            "ep": self.ep or None,
            **json_of(self, "rounds runtime cpu_time sizes shapes busy seconds"),
        }


def _interval_dict(state: Interval) -> dict[str, Any]:
    """An interval for JSON; an unknown end is None."""
    found = {"ratio": state.ratio, "low": state.low, "high": state.high if state.high < float("inf") else None}
    return {**found, "loads": state.loads, "ms": state.milliseconds, "reference_ms": state.reference_milliseconds}


def milliseconds_text(milliseconds: float) -> str:
    """A latency with four significant digits."""
    places = 3 if milliseconds < 10 else 2 if milliseconds < 100 else 1
    return f"{milliseconds:.{places}f}"


def short_names(names: list[str]) -> list[str]:
    """File names without their folders, unless files of several folders have the same name."""
    short = [os.path.basename(name) for name in names]
    return short if len(set(short)) == len(set(names)) else names
