"""Bisection: the items that make a test fail."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def find_culprits(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return items without which `fails` is false, in their order; `fails(items)` must be true.

    Empty where `fails(())` is true: then no item is at fault.  `fails` is called on items in their order, once with
    none and at most 1 + ceil(log2 n) times for each culprit found.

    Several items that each fail by themselves are found one after the other; of several that fail only together, one is
    found, which is enough.  Where adding items never makes a failure pass, each culprit found fails with the items that
    are left.  Otherwise the last call still showed that `fails` is false without the culprits.

    The method searches the shortest failing prefix: its last item is a culprit, and the prefix without it passes, so
    that the next search begins behind it.  (Zeller and Hildebrandt's delta debugging, 2002, for the case where any part
    may be tried.)
    """
    if fails(()):
        return []
    rest = list(items)
    found: list[T] = []
    passing = 0  # length of a prefix of `rest` that passes
    while True:
        failing = len(rest)  # length of a prefix that fails
        while failing - passing > 1:
            middle = (passing + failing) // 2
            if fails(tuple(rest[:middle])):
                failing = middle
            else:
                passing = middle
        found.append(rest.pop(failing - 1))
        if passing == len(rest) or not fails(tuple(rest)):
            return found
