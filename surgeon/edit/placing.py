"""Where new nodes go in the order of a scope, and which old ones must stand behind them."""

from surgeon.edit.tables import listed_in
from surgeon.indexing.scope import Node, Scope
from surgeon.matching.match import Match


def place_of(match: Match) -> tuple[int, int, list[Node]]:
    """(slot, position in the slot, nodes to move behind): where the new nodes keep topological order.

    The position counts neither the nodes of the match nor those to move: all of them leave their places first.
    """
    scope, root = match.scope, match.root
    if len(match.outputs) == 1 and not listed_in(scope, root.slot):
        return root.slot, 0, []
    taken = set(match.nodes)
    if len(match.outputs) == 1:
        return root.slot, _within(scope, root, taken), []
    needed = {name for node in match.nodes for name in node.inputs} - {n for node in match.nodes for n in node.outputs}
    made_at = [_key(scope, scope.producers[name]) for name in needed if name in scope.producers]
    earliest = max(made_at, default=(-1, -1))
    readers = [_lift(scope, reader) for name in match.outputs for reader in scope.readers(name)]
    latest = min((_key(scope, reader) for reader in readers if reader not in taken), default=(len(scope.nodes), 0))
    fitting = [node for node in match.nodes if earliest < _key(scope, node) < latest]
    if fitting:
        last = fitting[-1]
        return last.slot, _within(scope, last, taken), []
    last = max(match.nodes, key=lambda node: _key(scope, node))
    late = _late(scope, match, taken, _key(scope, last))
    return last.slot, _within(scope, last, taken.union(late)), late


def _within(scope: Scope, node: Node, taken: set[Node]) -> int:
    """The position in its slot's list at which new nodes go once those in `taken` are out of it."""
    listed = listed_in(scope, node.slot)
    before = listed[: listed.index(node)] if node in listed else ()
    return sum(item not in taken for item in before)


def _key(scope: Scope, node: Node) -> tuple[int, int]:
    listed = listed_in(scope, node.slot)
    return node.slot, listed.index(node) if node in listed else -1


def _lift(scope: Scope, node: Node) -> Node:
    while node.scope is not scope and node.scope.owner is not None:
        node = node.scope.owner
    return node


def _late(scope: Scope, match: Match, taken: set[Node], last: tuple[int, int]) -> list[Node]:
    """Readers of the outputs, and what reads them, that stand before the new place; in their order."""
    found: dict[int, Node] = {}
    level = [_lift(scope, reader) for name in match.outputs for reader in scope.readers(name)]
    while level:
        node = level.pop()
        if node in taken or id(node) in found or _key(scope, node) > last:
            continue
        found[id(node)] = node
        level.extend(_lift(scope, reader) for name in node.outputs for reader in scope.readers(name))
    return sorted(found.values(), key=lambda node: _key(scope, node))
