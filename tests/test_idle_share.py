"""How much of a machine other processes leave free, by a file like Linux's /proc/stat."""

import math
import os
import time
from pathlib import Path

import numpy as np
import pytest

from surgeon.runtime.timing import idle_share
from surgeon.runtime.timing.idle_share import IdleMeter, busy_share

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@pytest.fixture
def stat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of two processors that this process may use, and one that it may not."""
    monkeypatch.setattr(idle_share, "usable_processors", lambda: {0, 1})
    write(tmp_path / "stat", 0.0, 0.0)
    return tmp_path / "stat"


def write(path: Path, busy: float, idle: float, other: float = 0.0) -> None:
    """Seconds of each processor, a fourth of those without work waiting for a disk."""
    first, second = [round(100 + one * TICKS) for one in (busy, idle * 0.75)], round(idle * 0.25 * TICKS)
    line = f"{first[0] // 2} 0 {first[0] - first[0] // 2} {first[1]} {second} 0 0 0 0 0"
    spinning = f"{round(other * TICKS)} 0 0 0 0 0 0 0 0 0"
    path.write_text(f"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 {line}\ncpu1 {line}\ncpu2 {spinning}\nintr 1 2\n")


@pytest.mark.parametrize(("busy", "own", "share"), [(0.0, 0.0, 1.0), (4.0, 0.0, 0.6), (4.0, 6.0, 0.9), (4.0, 8.0, 1.0)])
def test_our_own_work_is_not_that_of_others(
    stat: Path, monkeypatch: pytest.MonkeyPatch, busy: float, own: float, share: float
) -> None:
    """Ten seconds of two processors, in which this process may have used some on both."""
    now = iter([1.0, 1.0 + own])
    monkeypatch.setattr(time, "process_time", lambda: next(now))
    meter = IdleMeter(str(stat))
    write(stat, busy, 10.0 - busy, other=10.0)
    assert meter.share() == pytest.approx(share, abs=0.01)


def test_a_system_that_does_not_say_is_not_busy(tmp_path: Path) -> None:
    share = IdleMeter(str(tmp_path / "nothing")).share()
    assert math.isnan(share)
    assert busy_share(np.array([share] * 12), threads=2, processors=2) == 0


def test_a_file_without_our_processors_says_nothing(stat: Path) -> None:
    stat.write_text("cpu  1 2 3 4 5 6 7 8 9 10\n")
    assert math.isnan(IdleMeter(str(stat)).share())


@pytest.mark.skipif(not os.path.exists(idle_share.STAT), reason="only Linux has it")
def test_this_machine_says_it() -> None:
    meter = IdleMeter()
    end = time.perf_counter() + 0.2
    while time.perf_counter() < end:
        pass
    assert 0 <= meter.share() <= 1


@pytest.mark.parametrize(
    ("idle", "threads", "processors", "busy"),
    [
        (0.5, 2, 2, 0.5),
        (0.95, 2, 2, 0.0),
        (0.8, 2, 2, 0.2),
        (0.8, 0, 2, 0.2),
        (0.5, 1, 2, 0.0),
        (0.75, 2, 4, 0.0),
        (0.75, 3, 4, 0.0),
        (0.75, 4, 4, 0.25),
        (0.75, 8, 4, 0.25),
        (0.9, 4, 64, 0.0),
        (0.9, 0, 64, 0.0),
        (0.8, 0, 64, 0.2),
    ],
)
def test_a_machine_is_busy_if_threads_lack_processors(idle: float, threads: int, processors: int, busy: float) -> None:
    assert busy_share(np.array([idle] * 7 + [1.0] * 5), threads, processors) == pytest.approx(busy)
