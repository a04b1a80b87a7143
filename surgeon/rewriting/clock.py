"""The clock that times the phases of a run."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Seconds by phase; a phase inside another does not count for the outer one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = [0.0]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what runs inside."""
        start = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent - self._inner.pop()
            self._inner[-1] += spent
