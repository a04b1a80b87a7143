"""A place that looks exactly like one matched before needs no search.

Models repeat themselves: twelve layers, one activation each.  After a match, its region is kept as a template of ops,
wiring and constants; where the next candidate fits the template node by node, it matches for the same reasons.  Only
regions whose match depends on nothing else (no attributes, no constants of rank, no types) become templates.
"""

from dataclasses import dataclass
from typing import Any

from surgeon.indexing.scope import Node, Scope, split_op
from surgeon.matching.compile import Compiled
from surgeon.matching.state import State
from surgeon.ops.records import TRANSPARENT, named
from surgeon.ops.schemas import schema

NODE, VARIABLE, NUMBER = 0, 1, 2
DIVIDES = named(lambda op: op.family == "product" and -1 in op.signs)


@dataclass(frozen=True, slots=True)
class Template:
    """A region by structure.

    up: ops on the way from the anchor to the root.  nodes: (op, inputs) from the root on; an input is (NODE, place of
    its maker), (VARIABLE, name in the pattern) or (NUMBER, what `Constants.scalar` says).
    """

    up: tuple[str, ...]
    nodes: tuple[tuple[str, tuple[tuple[int, Any], ...]], ...]

    def fill(self, state: State, anchor: Node) -> bool:
        """Fit the template around the anchor: fills `state.nodes` and `state.bound`; False where it does not fit."""
        root = _root(state, anchor, self.up)
        if root is None:
            return False
        producers, bound = state.producers, state.bound
        nodes: list[Node] = [root]
        for place, (op, inputs) in enumerate(self.nodes):
            node = nodes[place] if place < len(nodes) else None
            if node is None or node.op != op or len(node.inputs) != len(inputs):
                return False
            for (kind, wanted), name in zip(inputs, node.inputs, strict=True):
                if kind == NODE:
                    source = producers.get(name)
                    if source is None or (wanted < len(nodes) and nodes[wanted] is not source):
                        return False
                    if wanted == len(nodes):
                        nodes.append(source)
                elif kind == VARIABLE:
                    if bound.setdefault(wanted, name) != name:
                        return False
                elif state.scalar(name) != wanted:
                    return False
        if anchor not in nodes:
            return False
        state.nodes = nodes
        return True


def template_of(compiled: Compiled, state: State, root: Node, anchor: Node) -> Template | None:
    """The template of a match just found, or None where the match depends on more than structure."""
    scope, nodes = state.scope, [root]
    if not compiled.is_plain or not all(_is_plain(scope, node) for node in state.nodes):
        return None
    variables = {name: key for key, name in state.bound.items()}
    if len(variables) < len(state.bound):
        return None  # two variables stand for one tensor here, and need not elsewhere
    shape: list[tuple[str, tuple[tuple[int, Any], ...]]] = []
    inside = set(state.nodes)
    for node in nodes:
        inputs: list[tuple[int, Any]] = []
        for name in node.inputs:
            source = state.producers.get(name)
            number = state.scalar(name)
            if name in variables and number is None:
                inputs.append((VARIABLE, variables[name]))
            elif source is not None and source in inside:
                if source not in nodes:
                    nodes.append(source)
                inputs.append((NODE, nodes.index(source)))
            elif number is not None and name not in variables and number[3] and not number[2]:
                inputs.append((NUMBER, number))
            else:
                return None
        if node.op in DIVIDES and not any(kind == NUMBER for kind, _ in inputs):
            return None  # whether it may be taken for a product depends on the dtype
        shape.append((node.op, tuple(inputs)))
    up = _way_up(state, anchor, root, inside)
    return Template(up, tuple(shape)) if up is not None and len(nodes) == len(inside) else None


def _is_plain(scope: Scope, node: Node) -> bool:
    """Whether all nodes of this op mean the same: the schema in force gives it no attributes."""
    domain, op = split_op(node.op)
    known = schema(domain, op, scope.versions.get(domain))
    return node.op not in TRANSPARENT and known is not None and not known.attributes and len(node.outputs) == 1


def _way_up(state: State, anchor: Node, root: Node, inside: set[Node]) -> tuple[str, ...] | None:
    """Ops from the anchor's reader to the root, where each tensor on the way has one reader."""
    ops: list[str] = []
    node = anchor
    while node is not root:
        readers = state.scope.readers(node.outputs[0])
        if len(readers) != 1 or readers[0] not in inside:
            return None
        node = readers[0]
        ops.append(node.op)
    return tuple(ops)


def _root(state: State, anchor: Node, up: tuple[str, ...]) -> Node | None:
    node, consumers = anchor, state.scope.consumers
    for op in up:
        readers = consumers.get(node.outputs[0])
        if readers is None or len(readers) != 1 or readers[0].op != op or not readers[0].alive:
            return None
        node = readers[0]
    return node if node.scope is state.scope else None
