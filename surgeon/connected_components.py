"""Items that hang together, directly or through others, as groups."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def connected_components(items: Iterable[T], links: Iterable[tuple[T, T]]) -> list[list[T]]:
    """The items in groups that links join, each group and all of them in the order of the items.

    items: each once.  links: pairs; one with an end that is no item joins nothing.
    """
    parent = {item: item for item in items}

    def first(item: T) -> T:
        while parent[item] != item:
            parent[item] = item = parent[parent[item]]  # halving the way keeps it short (Tarjan, 1975)
        return item

    for one, other in links:
        if one in parent and other in parent:
            parent[first(one)] = first(other)
    groups: dict[T, list[T]] = {}
    for item in parent:
        groups.setdefault(first(item), []).append(item)
    return list(groups.values())
