"""Whole processes measured side by side: wall-clock seconds, processor time and peak resident memory.

Imports the standard library alone: on Linux the peak that a child reports starts at the memory of its parent.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

PR_SET_CHILD_SUBREAPER = 36  # of Linux's prctl.h


@dataclass(frozen=True)
class Run:
    """One process: wall-clock seconds from its start to its end, and the most memory it held, in MB (10⁶ bytes).

    processor: seconds of processor time, of the user and of the system, workers included.
    """

    seconds: float
    megabytes: float
    processor: float = 0.0


@dataclass(frozen=True)
class Contender:
    """A command that writes `target`."""

    name: str
    command: tuple[str, ...]
    target: Path


@dataclass
class Result:
    """The runs of one contender, in the order of the rounds, and the fused GELUs in what it wrote."""

    runs: list[Run]
    gelus: int = 0

    @property
    def seconds(self) -> float:
        return median(run.seconds for run in self.runs)

    @property
    def megabytes(self) -> float:
        return max(run.megabytes for run in self.runs)

    def times(self, other: Result) -> float:
        """Median over the rounds of this one's seconds by the other's in the same round."""
        return median(a.seconds / b.seconds for a, b in zip(self.runs, other.runs, strict=True))

    def beyond(self, other: Result) -> float:
        """Median over the rounds of this one's seconds less the other's in the same round."""
        return median(a.seconds - b.seconds for a, b in zip(self.runs, other.runs, strict=True))


def rounds(contenders: Sequence[Contender], count: int, gelus: Callable[[Path], int]) -> dict[str, Result]:
    """Run every contender once in each of `count` rounds, each round starting with another one.

    Before each run the target's folder is emptied and all pending writes reach the disk, so that none pays for another.
    """
    results = {contender.name: Result([]) for contender in contenders}
    for number in range(count):
        shift = number % len(contenders)
        for contender in (*contenders[shift:], *contenders[:shift]):
            shutil.rmtree(contender.target.parent, ignore_errors=True)
            contender.target.parent.mkdir(parents=True)
            os.sync()
            run = measure(contender.command)
            print(f"  {contender.name:12} {run.seconds:8.2f} s {run.megabytes:8.0f} MB", file=sys.stderr, flush=True)
            results[contender.name].runs.append(run)
            if number == 0:
                results[contender.name].gelus = gelus(contender.target)
    return results


def measure(command: Sequence[str], surroundings: Mapping[str, str] | None = None) -> Run:
    """Run a command to its end; a command that fails ends the benchmark with its last words.

    It may keep compiled modules, whatever this process is told: else each run would compile its own sources again.
    surroundings: further environment variables.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= surroundings or {}
    others = _adopt_orphans(True)
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            words = output.read()[-2000:].decode(errors="replace")
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{words}")
    workers = _processor_time_of_orphans(others)
    _adopt_orphans(False)
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there, in KiB here
    return Run(seconds, usage.ru_maxrss * unit / 1e6, usage.ru_utime + usage.ru_stime + workers)


def _adopt_orphans(adopts: bool) -> frozenset[int]:
    """Set whether workers that outlive their command become children of this process; returns those so far."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)
    return _children()


def _children() -> frozenset[int]:
    """The processes that this one is the parent of; none where the system does not list them."""
    listed = Path("/proc/self/task").glob("*/children")
    return frozenset(int(child) for path in listed for child in path.read_text().split())


def _processor_time_of_orphans(others: frozenset[int]) -> float:
    """The processor time of all workers that a command left; waits for their end.  others: children before it."""
    found = 0.0
    while left := _children() - others:
        for child in left:
            with suppress(ChildProcessError):
                usage = os.wait4(child, 0)[2]
                found += usage.ru_utime + usage.ru_stime
    return found
