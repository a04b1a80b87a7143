"""What lies inside of nodes of the main graph: in their bodies, and in the functions that they call."""

from collections import defaultdict

from surgeon.file.model import Address
from surgeon.ir.index import Index
from surgeon.precision.kept_nodes.selectors import Place, place_of
from surgeon.precision.measuring.range_instrumentation import MAIN

_Owner = Place | Address
"""A node of the main graph, or the address of a local function."""


class Insides:
    """The nodes inside of each node of the main graph."""

    def __init__(self, index: Index) -> None:
        self._nodes: defaultdict[_Owner, set[Place]] = defaultdict(set)
        self._calls: defaultdict[_Owner, set[Address]] = defaultdict(set)
        for scope in index.scopes if len(index.scopes) > 1 else ():
            for node in scope.nodes:
                owner, called = _owner(place_of(node)), index.called(node)
                if called is not None:
                    self._calls[owner].add(called.address)
                if scope is not index.main:
                    self._nodes[owner].add(place_of(node))

    def of(self, place: Place) -> set[Place]:
        """All nodes in the bodies of a node, in functions that it calls, and in those that these call."""
        found = set[Place]()
        seen, waiting = set[_Owner](), list[_Owner]([place])
        while waiting:
            owner = waiting.pop()
            if owner not in seen:
                seen.add(owner)
                found |= self._nodes.get(owner, set())
                waiting += self._calls.get(owner, ())
        return found


def _owner(place: Place) -> _Owner:
    """The node of the main graph that a node is or lies in, or its function."""
    address = place[0]
    if address[: len(MAIN)] != MAIN:
        return address[:1]
    return (MAIN, address[len(MAIN)][1]) if len(address) > len(MAIN) else place
