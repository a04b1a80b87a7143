"""Nodes of other sites that a site rests on, where one rule wrote what another had written: its proof has copies."""

from collections.abc import Iterable

from surgeon.indexing.scope import Node, Scope
from surgeon.ops.walking import GRAPHS

MOST = 64  # nodes that are copied into each proof; where it were more, the sites are proved together


def makers(scope: Scope, names: Iterable[str], inner: set[str], own: Iterable[Node] = ()) -> list[Node]:
    """The new nodes that make these tensors, as far back as to tensors of the source and of the `own` nodes.

    inner: the tensors that the source has not.
    """
    found: dict[Node, None] = {}
    known, waiting = set(own), list(names)
    while waiting:
        name = waiting.pop()
        node = scope.producers.get(name) if name in inner else None
        if node is not None and node not in known:
            known.add(node)
            found[node] = None
            waiting += node.inputs
    return list(found)


def can_copy(scope: Scope, names: Iterable[str], inner: set[str]) -> bool:
    """Whether proofs can copy what makes these tensors of a scope: not too many nodes, and none with a body."""
    if not all(name in inner and name in scope.producers for name in names):
        return False
    found = makers(scope, names, inner)
    return len(found) <= MOST and not any(item.type in GRAPHS for node in found for item in node.proto.attribute)
