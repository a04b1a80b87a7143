"""Nodes inside of nodes of the main graph: in their bodies, and in the functions that they call."""

from collections import defaultdict

from surgeon.connected_components import reachable
from surgeon.file.model import Address
from surgeon.ir.index import Index
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.precision.measuring.range_instrumentation import MAIN_GRAPH

_Owner = NodeAddress | Address
"""A node of the main graph, or the address of a local function."""


class NestedNodes:
    """The nodes inside of each node of the main graph."""

    def __init__(self, index: Index) -> None:
        self._nodes: defaultdict[_Owner, set[NodeAddress]] = defaultdict(set)
        self._calls: defaultdict[_Owner, set[Address]] = defaultdict(set)
        for scope in index.scopes if len(index.scopes) > 1 else ():
            for node in scope.nodes:
                owner, called = _owner(node_address(node)), index.called(node)
                if called is not None:
                    self._calls[owner].add(called.address)
                if scope is not index.main:
                    self._nodes[owner].add(node_address(node))

    def of(self, place: NodeAddress) -> set[NodeAddress]:
        """All nodes in the bodies of a node, in functions that it calls, and in those that these call."""
        owners = reachable(list[_Owner]([place]), lambda owner: self._calls.get(owner, ()))
        return {inner for owner in owners for inner in self._nodes.get(owner, ())}


def _owner(place: NodeAddress) -> _Owner:
    """The node of the main graph that a node is or lies in, or its function."""
    address = place[0]
    if address[: len(MAIN_GRAPH)] != MAIN_GRAPH:
        return address[:1]
    return (MAIN_GRAPH, address[len(MAIN_GRAPH)][1]) if len(address) > len(MAIN_GRAPH) else place
