"""How much of the processors other processes leave free during a measurement."""

import os
import time
from math import nan

import numpy as np

STAT = "/proc/stat"
"""Processor times since the start of the system, as Linux counts them; see proc_stat(5)."""
_IDLE = slice(3, 5)  # idle, and waiting for a disk
_ALL = slice(0, 8)  # without the times of guests, which are also in those of users
SPARE = 1 / 8  # share of the needed processors that others may use: a machine is never quite idle


class IdleMeter:
    """Measures from its creation on.  stat: a file like /proc/stat."""

    def __init__(self, stat: str = STAT) -> None:
        self._stat = stat
        self._start = self._read()

    def share(self) -> float:
        """The share of the processors that no other process has used, from 0 to 1; NaN if the system does not say."""
        idle, total = (after - before for after, before in zip(self._read(), self._start, strict=True))
        return float(min(1.0, max(0.0, idle / total))) if total > 0 else nan

    def _read(self) -> tuple[float, float]:
        """Seconds in which the usable processors were idle or this process used them, and all seconds."""
        own, ours = time.process_time(), {f"cpu{number}" for number in usable_processors()}
        try:
            with open(self._stat, encoding="ascii") as file:
                counts = [words[1:] for words in map(str.split, file) if words and words[0] in ours]
            tick = os.sysconf("SC_CLK_TCK")
        except (OSError, AttributeError):  # not on Linux
            return nan, nan
        idle, total = (sum(int(word) for words in counts for word in words[part]) for part in (_IDLE, _ALL))
        return own + idle / tick, total / tick


def usable_processors() -> set[int]:
    """The numbers of the processors that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def busy_share(idle: np.ndarray, threads: int, processors: int) -> float:
    """The share of the processors that others used, if too few were left for several threads; else 0.

    One thread that waits for a processor delays all others of an operator, so latencies of several threads are then
    those of the other processes.  idle: the share that was free, by load; NaN if unknown.  threads: 0 for all.
    """
    used, needed = 1 - float(np.median(idle)), min(threads or processors, processors)
    return used if needed > 1 and used * processors > processors - needed * (1 - SPARE) else 0.0
