"""What stands against taking matched nodes out of a graph, each as a sentence that names who is in the way."""

from collections.abc import Collection, Iterator
from typing import Any

from surgeon.indexing.scope import Node, Scope
from surgeon.listing import and_more
from surgeon.matching.advice import fewer_uses
from surgeon.matching.compile import Compiled
from surgeon.matching.state import Several, State
from surgeon.matching.trace import Finding, Kind
from surgeon.ops.records import TRANSPARENT


def is_closed(
    state: State,
    nodes: tuple[Node, ...],
    names: tuple[str, ...],
    among: tuple[Node, ...] | None = None,
    apart: Collection[Node] = (),
) -> bool:
    """Whether no inner tensor must stay: what `escapes` tells, as a quick yes or no.

    among: asked of these alone.  apart: nodes that may read them.
    """
    inside = {*nodes, *apart}
    held, consumers = state.scope.held, state.scope.consumers
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


def with_asides(state: State, nodes: tuple[Node, ...], names: tuple[str, ...]) -> tuple[Node, ...]:
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
        if node.scope is not scope or len(found) == ASIDE_LIMIT or scope.held.keys() & set(node.outputs):
            return nodes
        found[node] = None
        readers = [reader for name in node.outputs for reader in scope.readers(name)]
        if not readers:
            return nodes
        waiting += readers
    return tuple(sorted((*nodes, *found), key=lambda node: node.slot))


def passed_by(state: State, nodes: tuple[Node, ...], names: tuple[str, ...]) -> set[Node]:
    """Nodes that change nothing and were only looked through, which somebody else reads: they stay.

    What such a node reads must be there without the match: an input of it, an output, or made by another one.
    """
    explicit = {id(node) for node in state.made.values()}
    found: set[Node] = set()
    for node in nodes:
        if node.op not in TRANSPARENT or id(node) in explicit or is_closed(state, nodes, names, (node,)):
            continue
        source = state.producers.get(node.inputs[0])
        if source is None or source not in nodes or source in found or node.inputs[0] in names:
            found.add(node)
    return found


def staying(state: State, shared: frozenset[int], nodes: tuple[Node, ...], names: tuple[str, ...]) -> set[Node]:
    """Matched nodes that stay: shared ones of which somebody else uses what they make, and what those read."""
    inside = set(nodes)
    made = (state.made[key] for key in shared if key in state.made)
    waiting = [node for node in made if not is_closed(state, nodes, names, (node,))]
    found: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in inside and node not in found:
            found.add(node)
            waiting += [state.producers[name] for name in node.inputs if name in state.producers]
    return found


def escapes(
    state: State, nodes: tuple[Node, ...], names: tuple[str, ...], apart: Collection[Node] = ()
) -> Iterator[Finding]:
    """Why inner tensors must stay, one finding for each.  apart: as for `is_closed`."""
    inside = {*nodes, *apart}
    scope = state.scope
    for node in nodes:
        for name in node.outputs:
            if not name or name in names:
                continue
            if name in scope.held:
                yield _held(state, node, name, inside)
                continue
            for reader in scope.consumers.get(name, ()):
                if reader not in inside and reader.alive:
                    yield _read(state, node, name, inside)
                    break


def _held(state: State, node: Node, name: str, inside: set[Node]) -> Finding:
    why = state.scope.held[name]
    told = f"{name!r}, made by {node.label!r} inside the match, must stay: {why}"
    is_output = _is_output(state.scope, name)
    others = [reader for reader in state.scope.readers(name) if reader not in inside]
    where = state.scope.label or "the graph"
    change = f"take {name!r} out of the outputs of {where}" if is_output and not others else ""
    kind: Kind = "graph output" if is_output else "escape"
    return Finding(kind, "", "no use outside the match", why, repr(name), told, change, at=node.label)


def _is_output(scope: Scope, name: str) -> bool:
    return any(name == (item if isinstance(item, str) else item.name) for item in scope.proto.output)


def _read(state: State, node: Node, name: str, inside: set[Node]) -> Finding:
    scope = state.scope
    readers = [item for item in dict.fromkeys(scope.consumers[name]) if item not in inside and item.alive]
    first = readers[0]
    where = "" if first.scope is scope else f" (in {first.scope.label})"
    told = f"{name!r}, made by {node.label!r} inside the match, is also used by {first.label!r}{where}"
    told += and_more(len(readers) - 1)
    change = fewer_uses(name, readers)
    return Finding(
        "escape", "", "no use outside the match", f"a use by {first.op}", repr(name), told, change, at=node.label
    )


def swallowed(state: State, compiled: Compiled, nodes: tuple[Node, ...]) -> Finding | None:
    """Whether an input of the pattern is a tensor that a matched node makes, and so would go."""
    for key, held in state.bound.items():
        for name in _names(held):
            source = state.producers.get(name)
            if source is not None and source in nodes and key not in compiled.pattern.loose:
                told = f"the input {key!r} of the pattern is made inside the match, by {source.label!r}"
                wanted = f"{key!r} from outside the match"
                return Finding("escape", "", wanted, f"the result of {source.op}", "", told, at=source.label)
    return None


def comes_back(
    state: State,
    nodes: tuple[Node, ...],
    names: tuple[str, ...],
    passed: Collection[Node] = (),
    unread: Collection[str] = (),
) -> Finding | None:
    """Whether a path leaves through an output, by a body's capture too, and comes back as an input.

    passed: nodes that stay, but that were only looked through, so that nothing new reads what they make.  unread:
    inputs that the pattern lets be anything, so that nothing new reads them either.
    """
    inside = set(nodes)
    scope = state.scope
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
                told = f"a path leaves the match and comes back through {node.label!r}"
                return Finding("escape", "", "no way out and back", f"one through {node.op}", "", told, at=node.label)
            level.extend(scope.readers(name))
    return None


def unasked(state: State, compiled: Compiled) -> set[str]:
    """Tensors that a match met only where its pattern takes any tensor: no replacement can ask for them."""
    pattern = compiled.pattern
    held = {key: _names(value) for key, value in state.bound.items()}
    met = {name for key in pattern.loose - pattern.inner for name in held.get(key, ())}
    return met.difference(*(names for key, names in held.items() if key not in pattern.loose - pattern.inner))


def _names(held: Any) -> tuple[str, ...]:
    """The tensors that a name of a pattern is bound to."""
    return (held,) if isinstance(held, str) else tuple(held) if isinstance(held, Several) else ()


def blocking(
    state: State,
    compiled: Compiled,
    nodes: tuple[Node, ...],
    names: tuple[str, ...],
    passed: set[Node],
    apart: Collection[Node] = (),
) -> Finding | None:
    """What would take a tensor away from someone else.

    passed: nodes that stay, as they were only looked through.  apart: nodes that can read other tensors instead.
    """
    if not is_closed(state, nodes, names, apart=apart):
        return next(escapes(state, nodes, names, apart))
    blocked = swallowed(state, compiled, nodes)
    if blocked is None and len(names) > 1:
        blocked = comes_back(state, nodes, names, passed, unasked(state, compiled))
    return blocked
