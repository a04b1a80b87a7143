"""Nodes that compute what an earlier node of their scope has computed already, found in one pass over it."""

from collections.abc import Hashable, Iterator

from surgeon.indexing.equality import repeats, said_by
from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, Scope, split_op
from surgeon.matching.pattern import Found, Search
from surgeon.matching.state import Several
from surgeon.ops.records import COPYING
from surgeon.ops.schemas import schema


def _repeated_nodes(index: Index, scope: Scope) -> Iterator[Found]:
    """Nodes of one op with equal attributes on equal inputs; never random ones, calls, or nodes that hold graphs.

    Binds `first`: the outputs of the node that stays, in the order of the outputs of the one that goes.
    """
    if scope.is_unsorted:
        return
    seen = _Numbering(index, scope)
    for node in list(scope.live_nodes()):
        first = seen.first(node)
        if first is None or not (first.alive and node.alive):
            continue
        pairs = [(new, old) for new, old in zip(node.outputs, first.outputs, strict=True) if new]
        seen.held.update((new, seen.held[old]) for new, old in pairs)
        if all(index.held(scope, new) is None or node.op not in COPYING for new, _ in pairs):
            names = tuple(new for new, _ in pairs)
            yield Found((node,), names, {"first": Several(old for _, old in pairs)}, (first,))


repeated_nodes = Search(_repeated_nodes, "nothing is repeated")


class _Numbering:
    """What each node computes, as a key: nodes of equal keys compute the same.

    held: what tensors hold: the name of the first that holds the same, or the content of a small constant.
    """

    def __init__(self, index: Index, scope: Scope) -> None:
        self.scope = scope
        self.held: dict[str, Hashable] = {}
        self._index = index
        self._first: dict[Hashable, Node] = {}
        self._kinds: dict[str, tuple[bool, bool]] = {}

    def first(self, node: Node) -> Node | None:
        """The earlier node that computes the same, or None; a node without one is the first of its key."""
        if node.op == "Constant":
            return None  # it costs nothing, so it stays for whoever reads it
        held = self.held
        for name in node.outputs:
            held[name] = name
        does_repeat, has_attributes = self._kind(node.op)
        attributes = said_by(node) if does_repeat and has_attributes else ()
        if not does_repeat or attributes is None:
            return None
        inputs = tuple([held[name] if name in held else self._outside(name) for name in node.inputs])
        key = (node.op, inputs, attributes, tuple([bool(name) for name in node.outputs]))
        first = self._first.setdefault(key, node)
        return None if first is node else first

    def _kind(self, op: str) -> tuple[bool, bool]:
        """Whether nodes of an op give the same for the same, and whether they may have attributes."""
        if op not in self._kinds:
            domain, name = split_op(op)
            known = schema(domain, name, self.scope.versions.get(domain))
            self._kinds[op] = (repeats(op, self._index.local), known is None or bool(known.attributes))
        return self._kinds[op]

    def _outside(self, name: str) -> Hashable:
        """What a tensor holds that no node makes, or a Constant."""
        found = self._index.constants.get(self.scope, name)
        self.held[name] = name if found is None else found.content
        return self.held[name]
