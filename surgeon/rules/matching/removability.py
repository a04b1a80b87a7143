"""Whether matched nodes can be removed: readers outside the match, and outputs that must stay."""

from collections.abc import Collection, Iterator
from typing import Any

from surgeon.connected_components import reachable
from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match_state import MatchState, VariadicBinding

ASIDE_LIMIT = 24


def outside_uses(
    state: MatchState,
    nodes: tuple[Node, ...],
    names: tuple[str, ...],
    among: tuple[Node, ...] | None = None,
    apart: Collection[Node] = (),
) -> Iterator[tuple[Node, str]]:
    """The inner tensors of a match that must stay or have a reader outside it, each with its producer.

    names: the outputs.  among: check only these nodes.  apart: nodes that may read inner tensors.
    """
    inside = {*nodes, *apart}
    held, consumers = state.scope.protected, state.scope.consumers
    for node in nodes if among is None else among:
        for name in node.outputs:
            if not name or name in names:
                continue
            if name in held:
                yield node, name
                continue
            for reader in consumers.get(name, ()):
                if reader not in inside and reader.alive:
                    yield node, name
                    break


def has_no_outside_uses(
    state: MatchState, nodes: tuple[Node, ...], names: tuple[str, ...], among: tuple[Node, ...] | None = None
) -> bool:
    """Whether no inner tensor has a use outside the match."""
    return next(outside_uses(state, nodes, names, among), None) is None


def with_helper_nodes(state: MatchState, nodes: tuple[Node, ...], names: tuple[str, ...]) -> tuple[Node, ...]:
    """The nodes of a match and those that only serve it, such as the arithmetic for the shape of a Reshape.

    Such a node reads an inner tensor, and all its results end in the match.  If there is another use, or too many
    nodes, the nodes of the match are returned unchanged.
    """
    inside, scope = set(nodes), state.scope
    waiting = [reader for node in nodes for name in node.outputs if name not in names for reader in scope.readers(name)]
    found: dict[Node, None] = {}
    while waiting:
        node = waiting.pop()
        if node in inside or node in found:
            continue
        if node.scope is not scope or len(found) == ASIDE_LIMIT or scope.protected.keys() & set(node.outputs):
            return nodes
        found[node] = None
        readers = [reader for name in node.outputs for reader in scope.readers(name)]
        if not readers:
            return nodes
        waiting += readers
    return tuple(sorted((*nodes, *found), key=lambda node: node.slot))


def kept_passthrough_nodes(state: MatchState, nodes: tuple[Node, ...], names: tuple[str, ...]) -> set[Node]:
    """Nodes that change nothing and were only looked through, and that have readers outside: they stay.

    The input of such a node must exist without the match: an input or output of it, or an output of another such node.
    """
    explicit = {id(node) for node in state.node_of_pattern.values()}
    found: set[Node] = set()
    for node in nodes:
        if node.op not in TRANSPARENT or id(node) in explicit or has_no_outside_uses(state, nodes, names, (node,)):
            continue
        source = state.producers.get(node.inputs[0])
        if source is None or source not in nodes or source in found or node.inputs[0] in names:
            found.add(node)
    return found


def kept_shared_nodes(
    state: MatchState, shared: frozenset[int], nodes: tuple[Node, ...], names: tuple[str, ...]
) -> set[Node]:
    """Matched nodes that stay: shared ones with uses outside the match, and the producers of their inputs."""
    inside = set(nodes)
    made = (state.node_of_pattern[key] for key in shared if key in state.node_of_pattern)
    used = [node for node in made if node in inside and not has_no_outside_uses(state, nodes, names, (node,))]
    producers = state.producers
    return set(reachable(used, lambda node: inside.intersection(producers[x] for x in node.inputs if x in producers)))


def input_produced_inside(
    state: MatchState, compiled: CompiledPattern, nodes: tuple[Node, ...]
) -> tuple[str, Node] | None:
    """An input of the pattern that a matched node produces, and that node; None if there is none."""
    producers, loose = state.producers, compiled.pattern.may_be_inner
    for key, held in state.bindings.items():
        for name in _names(held):
            source = producers.get(name)
            if source is not None and source in nodes and key not in loose:
                return key, source
    return None


def find_reentry(
    state: MatchState,
    compiled: CompiledPattern,
    nodes: tuple[Node, ...],
    names: tuple[str, ...],
    passed: Collection[Node] = (),
) -> Node | None:
    """A node on a path that leaves the match through an output, perhaps into a body, and reenters as an input.

    passed: nodes that stay and were only looked through, whose outputs have no new readers; nor have inputs that the
    pattern does not constrain.
    """
    inside = set(nodes)
    scope = state.scope
    unread = _unasked(state, compiled)
    needed = {name for node in nodes for name in node.inputs}.difference(unread, *(node.outputs for node in passed))
    level = [reader for name in names for reader in scope.readers(name)]
    seen: set[int] = set()
    while level:
        node = level.pop()
        while node.scope is not scope and node.scope.owner is not None:
            node = node.scope.owner
        if id(node) in seen or node in inside:
            continue
        seen.add(id(node))
        for name in node.outputs:
            if name in needed:
                return node
            level.extend(scope.readers(name))
    return None


def _unasked(state: MatchState, compiled: CompiledPattern) -> set[str]:
    """Tensors that a match binds only to wildcards: no replacement can read them."""
    pattern = compiled.pattern
    held = {key: _names(value) for key, value in state.bindings.items()}
    met = {name for key in pattern.may_be_inner - pattern.named_inner for name in held.get(key, ())}
    return met.difference(
        *(names for key, names in held.items() if key not in pattern.may_be_inner - pattern.named_inner)
    )


def _names(held: Any) -> tuple[str, ...]:
    """The tensors that a capture is bound to."""
    return (held,) if isinstance(held, str) else tuple(held) if isinstance(held, VariadicBinding) else ()
