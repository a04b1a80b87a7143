"""Nodes entered into the tables of a scope, and taken out of them."""

from collections.abc import Iterable

from surgeon.indexing.scope import Node, Scope
from surgeon.matching.match import Match


def captures(scope: Scope, node: Node) -> list[str]:
    """Tensors of this scope and of those around it that the bodies of a node read, once per use."""
    found: list[str] = []
    for body in scope.bodies:
        if body.owner is node:
            inner = [name for item in body.live_nodes() for name in (*item.inputs, *captures(body, item)) if name]
            found += [name for name in inner if not body.defines(name)]
    return found


def detach(scope: Scope, match: Match, kept: Iterable[Node]) -> list[str]:
    """Take the nodes of a match out of the scope; returns the tensors that they read from outside.

    kept: those of them whose tensors are made again, under the same names.
    """
    inner, outputs = {""}, match.outputs
    taken = [name for node in match.nodes for name in (*node.inputs, *captures(scope, node))]
    for node in match.nodes:
        inner.update(node.outputs)
        remove(scope, node)
    scope.unmade |= inner
    read = [name for name in taken if name not in inner or name in outputs]
    for name in read:
        if name:
            retire(scope, name)
    for name in {name for node in kept for name in node.outputs}.difference(outputs):
        scope.consumers.pop(name, None)  # all that read it went
        scope.retired.pop(name, None)
    return [name for name in dict.fromkeys(read) if name and name not in outputs]


def remove(scope: Scope, node: Node) -> None:
    """Take a node out; what it reads is not told."""
    node.alive = False
    scope.touched.add(node.slot)
    for name in node.outputs:
        scope.producers.pop(name, None)
    if node.slot != node.origin:  # a new node, or one that moved
        scope.added[node.slot].remove(node)


def retire(scope: Scope, name: str) -> None:
    """Count one use of a tensor less."""
    home = scope.home_of_read(name)
    if home is not None:
        home.retired[name] = home.retired.get(name, 0) + 1


def attach(scope: Scope, node: Node) -> None:
    """Enter a node that is listed already: who makes its tensors, and who reads what it reads."""
    for name in node.outputs:
        if name:
            scope.producers[name] = node
    for name in node.inputs:
        home = scope.home_of_read(name) if name else None
        if home is not None:
            home.consumers.setdefault(name, []).append(node)
    scope.by_op[node.op].append(node)
