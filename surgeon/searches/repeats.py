"""Nodes that compute what an earlier node of their scope has computed already, found in one pass over it."""

from collections.abc import Hashable, Iterator

from onnx import AttributeProto, TensorProto

from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, Scope, qualified, split_op
from surgeon.matching.search import Found, Search
from surgeon.matching.state import Several
from surgeon.ops.records import COPYING, RANDOM
from surgeon.ops.schemas import schema

SMALL = 256  # bytes of an initializer up to which equal ones count as one; larger ones are told apart by their names
GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


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
        seen.same.update((new, seen.same.get(old, old)) for new, old in pairs)
        if all(index.held(scope, new) is None or node.op not in COPYING for new, _ in pairs):
            names = tuple(new for new, _ in pairs)
            yield Found((node,), names, {"first": Several(old for _, old in pairs)}, (first,))


repeated_nodes = Search(_repeated_nodes, "nothing is repeated")


class _Numbering:
    """What each node computes, as a key: nodes of equal keys compute the same.

    same: for each tensor of a node that repeats another, the tensor that it repeats.
    """

    def __init__(self, index: Index, scope: Scope) -> None:
        self.scope = scope
        self.same: dict[str, str] = {}
        self._constants: dict[str, Hashable] = {}
        self._first: dict[Hashable, Node] = {}
        self._versions = scope.versions
        self._calls = {qualified(item.domain, item.name) for item in index.model.skeleton.functions}
        self._kinds: dict[str, tuple[bool, bool]] = {}
        self._overridable = set(scope.inputs)

    def first(self, node: Node) -> Node | None:
        """The earlier node that computes the same, or None; a node without one is the first of its key."""
        if node.op == "Constant":
            self._note_constant(node)
            return None
        repeats, has_attributes = self._kind(node.op)
        if not repeats:
            return None
        attributes = _attributes(node) if has_attributes else ()
        if attributes is None:
            return None
        inputs = tuple([self._value(name) for name in node.inputs])
        key = (node.op, inputs, attributes, tuple([bool(name) for name in node.outputs]))
        first = self._first.setdefault(key, node)
        return None if first is node else first

    def _kind(self, op: str) -> tuple[bool, bool]:
        """Whether nodes of an op give the same for the same, and whether they may have attributes."""
        if op not in self._kinds:
            domain, name = split_op(op)
            known = schema(domain, name, self._versions.get(domain))
            repeats = known is not None and name not in RANDOM and op not in self._calls
            repeats = repeats and not any(spec.type in GRAPHS for spec in known.attributes.values()) if known else False
            self._kinds[op] = (repeats, known is None or bool(known.attributes))
        return self._kinds[op]

    def _value(self, name: str) -> Hashable:
        """A tensor by the first that holds the same; a small initializer by its content."""
        name = self.same.get(name, name)
        if name in self._constants:
            return self._constants[name]
        tensor = self.scope.initializers.get(name)
        if tensor is None or name in self._overridable:
            return name
        is_small = tensor.ByteSize() <= SMALL and not tensor.external_data
        found = self._constants[name] = _content(tensor) if is_small else name
        return found

    def _note_constant(self, node: Node) -> None:
        """Constant nodes of equal content count as one; they cost nothing, so they stay for whoever reads them."""
        items = node.proto.attribute
        if len(items) == 1 and items[0].name == "value" and items[0].t.ByteSize() <= SMALL:
            self._constants[node.outputs[0]] = _content(items[0].t)


def _content(tensor: TensorProto) -> Hashable:
    """A tensor but for its name and its doc string."""
    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.ClearField("name")
    copy.ClearField("doc_string")
    data: bytes = copy.SerializeToString(deterministic=True)
    return data


def _attributes(node: Node) -> tuple[bytes, ...] | None:
    """Attributes by name; None for a node that holds a graph.  A reference is to the same call's attribute."""
    items: list[AttributeProto] = list(node.proto.attribute)
    if any(item.type in GRAPHS for item in items):
        return None
    return tuple(sorted(item.SerializeToString(deterministic=True) for item in items))
