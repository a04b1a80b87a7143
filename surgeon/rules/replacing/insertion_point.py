"""Decisions before an edit: where new nodes go, and which tensor can be read instead of another."""

from functools import partial
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from surgeon.errors import require
from surgeon.ir.mutations import listed_in
from surgeon.ir.scope import Node, Scope
from surgeon.ops.builder.graph import Graph
from surgeon.rules.matching.match import Match
from surgeon.rules.matching.shape_uses import ShapeUse, SizeRange
from surgeon.rules.replacing.replacement import Replacement
from surgeon.rules.replacing.replacement_builder import build_replacement

SLICES = 15  # first opset in which Shape has start and end


def redirect_shape_use(match: Match, asked: ShapeUse) -> tuple[Match, Replacement]:
    """A match of the node that reads sizes, and its replacement."""
    names = dict.fromkeys(part.name for part in asked.parts if part.name is not None)
    bound = {f"size_{place}": name for place, name in enumerate(names)}
    place = Match(
        match.index,
        match.scope,
        match.pattern,
        nodes=(asked.node,),
        outputs=asked.node.outputs[:1],
        bound=bound,
        kept=asked.nodes,
    )
    return place, build_replacement(partial(_written, asked=asked), place)


def _written(g: Graph, match: Match, asked: ShapeUse) -> Any:
    captured = {match.bound[name]: match[name] for name in match.bound}
    parts = [_part(g, part, captured.get(part.name), match.opset) for part in asked.parts]
    sizes = parts[0] if len(parts) == 1 else g.concat(*parts, axis=0) if parts else _constant([])
    if asked.node.op == "Shape":
        return sizes
    if all(part.name is None for part in asked.parts):
        return _constant(int(np.prod([int(str(size)) for part in asked.parts for size in part.sizes], dtype=np.int64)))
    return g.reduce_prod(sizes, keepdims=0)


def _part(g: Graph, part: SizeRange, source: Any, opset: int) -> Any:
    if part.name is None:
        return _constant([int(str(size)) for size in part.sizes])
    if part.first == 0 and len(part.sizes) == source.rank:
        return g.shape(source)
    if opset >= SLICES:
        return g.shape(source, start=part.first, end=part.stop)
    return g.gather(g.shape(source), np.arange(part.first, part.stop, dtype=np.int64), axis=0)


def _constant(values: Any) -> Any:
    return gs.Constant("sizes", np.array(values, np.int64))


def can_redirect(scope: Scope, old: str, new: str) -> bool:
    """Whether all readers of one tensor can read another: no body in between has a tensor of that name."""
    home = scope.defining_scope(new)
    return all(reader.scope is scope or reader.scope.defining_scope(new) is home for reader in scope.readers(old))


def require_shareable(match: Match, fragment: Replacement) -> None:
    """Raise ConditionFailed if initializers must stay, so that their readers cannot read others."""
    scope, index = match.scope, match.index
    for name, ref in zip(match.outputs, fragment.outputs, strict=True):
        require(name in scope.initializers, f"{name!r} is neither an initializer nor an output of the match")
        require(ref.kind == "capture", f"{name!r} can be replaced only by a tensor of the model")
        new = match.tensor(ref.key)
        why = index.pin_reason(scope, name)
        require(why is None, f"{name!r} equals {new!r}, but must keep its name: {why}")
        home = scope.defining_scope(new)
        is_stored = home is not None and new in home.initializers
        require(is_stored, f"{new!r} cannot replace {name!r}: it is not an initializer")
        for tensor, at in ((name, scope), (new, home or scope)):
            given = index.is_overridable(at, tensor)
            require(not given, f"{name!r} equals {new!r} only until a caller gives the input {tensor!r} another value")
        require(can_redirect(scope, name, new), f"a body that reads {name!r} defines its own {new!r}")


def insertion_point(match: Match) -> tuple[int, int, list[Node]]:
    """(slot, position in the slot, nodes to move after it): an insertion point that keeps topological order.

    The position counts neither the nodes of the match nor those to move: all of them are removed first.
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
    """The position in a slot's list for new nodes, once the nodes in `taken` are removed."""
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
    """Readers of the outputs, and their readers, that precede the new position; in order."""
    found: dict[int, Node] = {}
    level = [_lift(scope, reader) for name in match.outputs for reader in scope.readers(name)]
    while level:
        node = level.pop()
        if node in taken or id(node) in found or _key(scope, node) > last:
            continue
        found[id(node)] = node
        level.extend(_lift(scope, reader) for name in node.outputs for reader in scope.readers(name))
    return sorted(found.values(), key=lambda node: _key(scope, node))
