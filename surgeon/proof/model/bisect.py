"""Culprits among many: which items make a test fail, found by halving."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def find_culprits(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return items without which `fails` is false, in their order; `fails(items)` must be true.

    Empty when `fails` is true of no items at all: then the fault is none of theirs.  `fails` is called on items in
    their order, once with none and at most 1 + ceil(log2 n) times for each culprit found.

    One of several that fail alone is found after the other; of those that fail only together one is found, which is
    enough.  Where more items never make a failure pass, no culprit found is one too many: each of them fails with
    what is left.  Where they do, the last call still was one of `fails` being false without the culprits.

    The method is that of looking for the shortest failing prefix: its last item is a culprit, and the prefix without
    it is known to pass, so that the next search begins behind it.  (Zeller and Hildebrandt's delta debugging, 2002,
    for the case where any part may be tried.)
    """
    if fails(()):
        return []
    rest = list(items)
    found: list[T] = []
    passing = 0  # the first so many of the rest pass together
    while True:
        failing = len(rest)  # the first so many fail
        while failing - passing > 1:
            middle = (passing + failing) // 2
            if fails(tuple(rest[:middle])):
                failing = middle
            else:
                passing = middle
        found.append(rest.pop(failing - 1))
        if passing == len(rest) or not fails(tuple(rest)):
            return found
