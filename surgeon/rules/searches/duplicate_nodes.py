"""Nodes that compute the same as an earlier node of their scope, found in one pass."""

from collections.abc import Hashable, Iterator

from surgeon.ir.equivalence import is_deterministic
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ir.structure import Structure
from surgeon.ops.traits.trait_lookup import IDENTITY_OPS, traits_of
from surgeon.ops.traversal import without_absent_end
from surgeon.rules.matching.match_state import VariadicBinding
from surgeon.rules.matching.pattern import Found, Search


def _repeated_nodes(index: Index, scope: Scope) -> Iterator[Found]:
    """Nodes of one op with equal attributes on equal inputs; never random ones, calls, or nodes that hold graphs.

    Binds `first`: the outputs of the node that stays, in the order of the outputs of the one that goes.
    """
    if not _may_repeat(scope):
        return
    seen = _Numbering(index, scope)
    for node in scope.live_nodes():
        first = seen.first(node)
        if first is None or not (first.alive and node.alive):
            continue
        pairs = [(new, old) for new, old in zip(node.outputs, first.outputs, strict=True) if new]
        seen.held.update((new, seen.held[old]) for new, old in pairs)
        if all(index.pin_reason(scope, new) is None or node.op not in IDENTITY_OPS for new, _ in pairs):
            names = tuple(new for new, _ in pairs)
            yield Found((node,), names, {"first": VariadicBinding(old for _, old in pairs)}, (first,))


def _may_repeat(scope: Scope) -> bool:
    """A quick check whether two nodes may compute the same: the first such pair reads the same produced tensors.

    A node that is the only reader of such a tensor, as most are, is skipped.
    """
    makers, consumers = scope.producers, scope.consumers
    seen: set[tuple[str | None, ...]] = set()
    for node in scope.live_nodes():
        read: list[str | None] = [node.op]
        for name in without_absent_end(node.inputs):
            if name not in makers or makers[name].op == "Constant":
                read.append(None)
            elif len(consumers[name]) == 1:
                break
            else:
                read.append(name)
        else:
            key = tuple(read)
            if node.op != "Constant" and key in seen:
                return True
            seen.add(key)
    return False


repeated_nodes = Search(_repeated_nodes, "nothing is repeated")


class _Numbering:
    """Value numbering: nodes with equal keys compute the same.  Keys are computed only if two nodes may be equal.

    held: produced tensor -> the first tensor with the same value.  Other tensors are kept apart, so that the order of
    queries does not change keys.
    """

    def __init__(self, index: Index, scope: Scope) -> None:
        self.scope = scope
        self.held: dict[str, Hashable] = {}
        self._index = index
        self._alike: dict[Hashable, Node | dict[Hashable, Node]] = {}
        self._given: dict[str, Hashable] = {}
        self._shareable: dict[str, bool] = {}
        self._meant = index.cached_analysis(Structure, Structure).meant

    def first(self, node: Node) -> Node | None:
        """The earlier node that computes the same; None if this is the first."""
        if node.op == "Constant":
            return None  # it costs nothing
        held = self.held
        for name in node.outputs:
            held[name] = name
        if not self._may_go(node.op):
            return None
        rough = (node.op, *map(held.get, without_absent_end(node.inputs)))
        alike = self._alike.setdefault(rough, node)
        if alike is node:
            return None  # attributes and constants are compared only if another node looks equal
        if not isinstance(alike, dict):
            alike = self._alike[rough] = {self._key(alike): alike}
        key = self._key(node)
        first = None if key is None else alike.setdefault(key, node)
        return None if first is node else first

    def _key(self, node: Node) -> Hashable | None:
        """A key of nodes that compute the same; None for a node with a graph attribute."""
        kind = self._meant(node)
        if kind is None:
            return None
        read = without_absent_end(node.inputs)
        inputs = tuple([self.held[name] if name in self.held else self._outside(name) for name in read])
        return kind, inputs, tuple([bool(name) for name in node.outputs])

    def _may_go(self, op: str) -> bool:
        """Whether nodes of an op are deterministic and may be shared."""
        if op not in self._shareable:
            self._shareable[op] = is_deterministic(op, self._index.local) and not traits_of(op).dtype.is_qdq
        return self._shareable[op]

    def _outside(self, name: str) -> Hashable:
        """The value of a tensor that has no producer, or a Constant as one."""
        if name not in self._given:
            found = self._index.constants.get(self.scope, name)
            self._given[name] = name if found is None else found.content
        return self._given[name]
