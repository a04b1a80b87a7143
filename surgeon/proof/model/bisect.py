"""Bisection: the items that make a test fail, and the items without which it fails no longer."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def find_culprits(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return items without which `fails` is false, in their order; `fails(items)` must be true.

    Empty where `fails(())` is true: then no item is at fault.  `fails` is called on items in their order, once with
    none and at most 1 + ceil(log2 n) times for each culprit found.

    Several items that each fail by themselves are found one after the other; of several that fail only together, one is
    found, which is enough.  If adding items never makes a failure pass, each culprit found fails with the items that
    are left.  Otherwise the last call still showed that `fails` is false without the culprits.

    The method searches the shortest failing prefix: its last item is a culprit, and the prefix without it passes, so
    that the next search begins after it.  (Zeller and Hildebrandt's delta debugging, 2002; there, any part
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


def minimal_part(
    items: Sequence[T], holds: Callable[[Sequence[T]], bool], may_go_on: Callable[[], bool] = lambda: True
) -> list[T]:
    """Return a part of the items for which `holds` is true; at least one item.  It must be true for all of them.

    Where `may_go_on` stays true, no single item can be left out of it.  The method leaves out smaller and smaller
    pieces, halves first (Zeller and Hildebrandt's delta debugging, 2002): of n items, one is found in at most 2 log2 n
    calls of `holds`, each of a shorter part.
    """
    rest, count = list(items), 2
    while len(rest) > 1:
        size = -(-len(rest) // count)
        for at in range(0, len(rest), size):
            if not may_go_on():
                return rest
            less = [*rest[:at], *rest[at + size :]]
            if holds(less):
                rest, count = less, max(count - 1, 2)
                break
        else:
            if size == 1:
                break
            count = min(2 * count, len(rest))
    return rest
