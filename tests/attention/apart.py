"""Work in a process of its own, for what may crash: ONNX Runtime 1.31 dies on optimizing some exports."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

Made = TypeVar("Made")

_pools: list[ProcessPoolExecutor] = []


def apart(work: Callable[..., Made], *args: object) -> Made | None:
    """What a function returns in another process, which stays for the next call; None where the process dies."""
    if not _pools:
        _pools.append(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
    try:
        return _pools[0].submit(work, *args).result()
    except BrokenProcessPool:
        _pools.clear()
        return None


def close() -> None:
    """End the other process; without it a process that made one does not end either."""
    while _pools:
        _pools.pop().shutdown()
