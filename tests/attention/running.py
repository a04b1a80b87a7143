"""Measuring many cases, in one process or several."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.attention import table
from tests.attention.apart import close
from tests.attention.cases import Case


def measured(chosen: Sequence[Case], tools: Sequence[str], jobs: int) -> list[table.Row]:
    """The rows of all cases, in their order; those of one variant in one process, so that equal exports meet."""
    groups: dict[str, list[Case]] = {}
    for case in chosen:
        groups.setdefault(case.variant.name, []).append(case)
    if jobs == 1:
        return [row for group in groups.values() for row in _rows(group, tools)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        made = pool.map(_rows, groups.values(), [tools] * len(groups))
        return [row for group in made for row in group]


def _rows(group: Sequence[Case], tools: Sequence[str]) -> list[table.Row]:
    try:
        return list(table.rows(group, tools, _say))
    finally:
        close()


def _say(text: str) -> None:
    """Progress, beside the table."""
    print(text, file=sys.stderr, flush=True)
