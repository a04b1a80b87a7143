"""What stands against taking matched nodes out of a graph: who else needs what they make."""

from collections.abc import Collection
from typing import Any

from surgeon.ir.scope import Node
from surgeon.ops.traits.trait_lookup import TRANSPARENT
from surgeon.rules.matching.compiler import CompiledPattern
from surgeon.rules.matching.match_state import MatchState, VariadicBinding


def has_no_outside_uses(
    state: MatchState,
    nodes: tuple[Node, ...],
    names: tuple[str, ...],
    among: tuple[Node, ...] | None = None,
    apart: Collection[Node] = (),
) -> bool:
    """Whether no inner tensor must stay.

    among: asked of these alone.  apart: nodes that may read them.
    """
    inside = {*nodes, *apart}
    held, consumers = state.scope.protected, state.scope.consumers
    for node in nodes if among is None else among:
        for name in node.outputs:
            if name and name not in names:
                if name in held:
                    return False
                for reader in consumers.get(name, ()):
                    if reader not in inside and reader.alive:
                        return False
    return True


ASIDE_LIMIT = 24


def with_helper_nodes(state: MatchState, nodes: tuple[Node, ...], names: tuple[str, ...]) -> tuple[Node, ...]:
    """The nodes of a match and those beside it that only serve it, such as the arithmetic for the shape of a Reshape.

    Such a node reads an inner tensor, and all that is made of what it makes ends in the match.  Where there is anything
    else, or too much, the nodes alone.
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
    """Nodes that change nothing and were only looked through, which somebody else reads: they stay.

    What such a node reads must be there without the match: an input of it, an output, or made by another one.
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
    """Matched nodes that stay: shared ones of which somebody else uses what they make, and what those read."""
    inside = set(nodes)
    made = (state.node_of_pattern[key] for key in shared if key in state.node_of_pattern)
    waiting = [node for node in made if not has_no_outside_uses(state, nodes, names, (node,))]
    found: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in inside and node not in found:
            found.add(node)
            waiting += [state.producers[name] for name in node.inputs if name in state.producers]
    return found


def input_produced_inside(
    state: MatchState, compiled: CompiledPattern, nodes: tuple[Node, ...]
) -> tuple[str, Node] | None:
    """An input of the pattern that a matched node makes, so that it would go, and that node; None without one."""
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
    """Where a path that leaves through an output, by a body's capture too, comes back as an input.

    passed: nodes that stay, but that were only looked through, so that nothing new reads what they make.  Nor does
    anything new read inputs that the pattern lets be anything.
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
    """Tensors that a match met only where its pattern takes any tensor: no replacement can ask for them."""
    pattern = compiled.pattern
    held = {key: _names(value) for key, value in state.bindings.items()}
    met = {name for key in pattern.may_be_inner - pattern.named_inner for name in held.get(key, ())}
    return met.difference(
        *(names for key, names in held.items() if key not in pattern.may_be_inner - pattern.named_inner)
    )


def _names(held: Any) -> tuple[str, ...]:
    """The tensors that a name of a pattern is bound to."""
    return (held,) if isinstance(held, str) else tuple(held) if isinstance(held, VariadicBinding) else ()
