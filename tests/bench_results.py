"""Results of benchmarks that nobody measured: for tests of statistics, reports and pages."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surgeon.runtime.timing.latency import Bench
from surgeon.runtime.timing.samples import LatencySamples


def samples_of(log_seconds: Any, idle: float = np.nan) -> LatencySamples:
    """Loads of one round, one second apart.  log_seconds: [load, shape, candidate], or [load, candidate]."""
    logs = np.asarray(log_seconds, np.float64)
    logs = logs if logs.ndim == 3 else logs[:, None, :]
    return LatencySamples(np.exp(logs)[..., None], np.arange(len(logs), dtype=np.float64), np.full(len(logs), idle))


def bench_of(milliseconds: Mapping[str, Sequence[float]], **fields: Any) -> Bench:
    """The result for models that took these milliseconds in each load, at one shape."""
    samples = samples_of(np.log(1e-3 * np.array([*milliseconds.values()]).T))
    known = {"shapes": ({},), "threads": 1, "ep": "cpu", "seconds": 1.0}
    return Bench(tuple(milliseconds), samples, **{**known, **fields})
