"""Connected components of a graph, the items that are reachable from others, and topological order."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def connected_components(items: Iterable[T], links: Iterable[tuple[T, T]]) -> list[list[T]]:
    """The items in groups that are connected by links; groups and their items in the order of the items.

    items: distinct items.  links: pairs; pairs with other items are ignored.
    """
    parent = {item: item for item in items}

    def first(item: T) -> T:
        while parent[item] != item:
            parent[item] = item = parent[parent[item]]  # path halving (Tarjan, 1975)
        return item

    for one, other in links:
        if one in parent and other in parent:
            parent[first(one)] = first(other)
    groups: dict[T, list[T]] = {}
    for item in parent:
        groups.setdefault(first(item), []).append(item)
    return list(groups.values())


def reachable(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """The starts and all items reachable from them, each once, depth first."""
    found: dict[T, None] = {}
    pending = list(starts)
    while pending:
        item = pending.pop()
        if item not in found:
            found[item] = None
            pending += following(item)
    return found


def topological_order(items: Iterable[T], needs: Callable[[T], Iterable[T]]) -> list[T] | None:
    """The items, each after those that it needs, depth first, otherwise in their order; None if there is a cycle."""
    order: dict[T, None] = {}
    opened: set[T] = set()
    for start in items:
        stack = [start]
        while stack:
            item = stack[-1]
            waiting = [] if item in order else [other for other in needs(item) if other not in order]
            if not waiting:
                order[stack.pop()] = None
            elif item in opened:
                return None
            else:
                opened.add(item)
                stack += reversed(waiting)
    return list(order)
