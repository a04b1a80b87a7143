"""How much of a matrix runs: a sample of it by default, all of it with `pytest --whole`, which takes hours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Case = TypeVar("Case")
_whole = False


def take_whole(whole: bool) -> None:
    """Said once, by conftest.py, before tests are collected."""
    global _whole
    _whole = whole


def is_whole() -> bool:
    """Whether nothing is sampled."""
    return _whole


def examples(whole: int) -> int:
    """How many examples a test of Hypothesis takes, of so many in a whole run; new ones in each run."""
    return whole if _whole else max(whole // 6, 10)


def chosen(sample: Callable[[], Sequence[Case]], every: Callable[[], Sequence[Case]]) -> Sequence[Case]:
    """The cases that run."""
    return every() if _whole else sample()
