"""numpy's BLAS on one thread.

Threads gain little on the small matrices of a proof, and beside other work they cost much: OpenBLAS's wait for each
other busily, so that where all cores are taken a product took nine times the CPU seconds that it takes on one thread.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_")


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep the OpenBLAS of numpy's wheels to one thread inside a `with`; any other BLAS goes on as it does."""
    found = _switches()
    if found is None:
        yield
        return
    told, tell = found
    before = told()
    tell(1)
    try:
        yield
    finally:
        tell(before)


@cache
def _switches() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """Return what tells the number of threads and what sets it; None where numpy came with no OpenBLAS of its own."""
    home = Path(np.__file__).parent
    for folder in (home.parent / "numpy.libs", home / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            library = ctypes.CDLL(str(path))
            for name in _NAMES:
                if hasattr(library, name.format("get")):
                    return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None
