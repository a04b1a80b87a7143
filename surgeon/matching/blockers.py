"""What stands against taking matched nodes out of a graph, each as a sentence that names who is in the way."""

from surgeon.indexing.scope import Node
from surgeon.matching.compile import Compiled
from surgeon.matching.state import Several, State


def escape(state: State, nodes: tuple[Node, ...], names: tuple[str, ...]) -> str | None:
    """Why an inner tensor must stay, or None."""
    inside = set(nodes)
    scope = state.scope
    for node in nodes:
        for name in node.outputs:
            if not name or name in names:
                continue
            if name in scope.held:
                return f"{name!r}, made by {node.label!r} inside the match, must stay: {scope.held[name]}"
            for reader in scope.consumers.get(name, ()):
                if reader not in inside and reader.alive:
                    where = "" if reader.scope is scope else f" (in {reader.scope.label})"
                    return f"{name!r}, made by {node.label!r} inside the match, is also used by {reader.label!r}{where}"
    return None


def swallowed(state: State, compiled: Compiled, nodes: tuple[Node, ...]) -> str | None:
    """Whether an input of the pattern is a tensor that a matched node makes, and so would go."""
    for key, held in state.bound.items():
        for name in (held,) if isinstance(held, str) else held if isinstance(held, Several) else ():
            source = state.producers.get(name)
            if source is not None and source in nodes and key not in compiled.pattern.inner:
                return f"the input {key!r} of the pattern is made inside the match, by {source.label!r}"
    return None


def comes_back(state: State, nodes: tuple[Node, ...], names: tuple[str, ...]) -> str | None:
    """Whether a path leaves through an output, by a body's capture too, and comes back as an input."""
    inside = set(nodes)
    scope = state.scope
    needed = {name for node in nodes for name in node.inputs}
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
                return f"a path leaves the match and comes back through {node.label!r}"
            level.extend(scope.readers(name))
    return None
