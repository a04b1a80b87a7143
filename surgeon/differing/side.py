"""One graph as it is compared: nodes by number, who makes what each reads, and what each is apart from its name."""

from collections.abc import Hashable, Sequence
from functools import cached_property

import onnx

from surgeon.diagnosis.scopes import path_of
from surgeon.indexing.equality import said_in
from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node, Scope
from surgeon.ops.records import COMMUTATIVE, is_random, record
from surgeon.ops.walking import GRAPHS

SMALL = 16  # elements of a constant that is told by value
MADE, GIVEN, STORED, LEFT_OUT = range(4)  # where what a node reads comes from
Read = tuple[int, int, Hashable]
"""Where from; the node that makes it, else -1; its place among that one's outputs, a name, or what it holds."""


class GraphSide:
    """The nodes of one scope but Constants, which are what others hold.

    by_name: whether inputs and outputs go by their names, which are those of the other graph, or by their order.
    """

    def __init__(self, index: Index, scope: Scope, by_name: bool) -> None:
        self.index, self.scope = index, scope
        self._given = {} if by_name else {name: place for place, name in enumerate(ends_of(scope)[0])}
        self.nodes: list[Node] = [node for node in scope.nodes if node.op != "Constant"]
        self._number = {name: at for at, node in enumerate(self.nodes) for name in node.outputs if name}
        self._place = {name: place for node in self.nodes for place, name in enumerate(node.outputs) if name}
        self.inputs: list[Sequence[str]] = []  # as they are compared: of a commutative op what a node makes comes first
        self.reads: list[list[Read]] = []
        for node in self.nodes:
            reads, names = [self._read(name) for name in node.inputs], node.inputs
            if node.op in COMMUTATIVE and len(reads) == 2 and reads[0][0] > reads[1][0]:
                reads, names = reads[::-1], names[::-1]
            self.reads.append(reads)
            self.inputs.append(names)
        self.readers: list[list[tuple[int, int, int]]] = [[] for _ in self.nodes]  # (place, who reads, as which input)
        for at, reads in enumerate(self.reads):
            for slot, (kind, maker, place) in enumerate(reads):
                if kind == MADE and isinstance(place, int):
                    self.readers[maker].append((place, at, slot))
        ends = {name if by_name else str(place): name for place, name in enumerate(ends_of(scope)[1])}
        # What the graph hands on: the node that makes it, and which of its outputs that is.
        made = {key: name for key, name in ends.items() if name in self._number}
        self.makers = {key: (self._number[name], self._place[name]) for key, name in made.items()}
        self.ends: dict[int, tuple[tuple[int, str], ...]] = {}
        for key, (at, place) in self.makers.items():
            self.ends[at] = (*self.ends.get(at, ()), (place, key))

    def _read(self, name: str) -> Read:
        if not name:
            return LEFT_OUT, -1, ""
        if name in self._number:
            return MADE, self._number[name], self._place[name]
        home = self.scope.home(name)
        if home is None or (name in home.inputs and name not in home.initializers):
            return GIVEN, -1, self._given.get(name, name)
        if home is not self.scope and name in home.producers and home.producers[name].op != "Constant":
            return GIVEN, -1, name
        return STORED, -1, self.held(name)

    def held(self, name: str) -> Hashable:
        """What a stored tensor is: a small one by value, a large one by dtype and shape."""
        tensor = self.stored(name)
        if tensor is not None and _size(tensor.dims) > SMALL:
            return tensor.data_type, tuple(tensor.dims)
        value = self.index.constants.get(self.scope, name)
        if value is not None:
            return value.content
        return (tensor.data_type, tuple(tensor.dims)) if tensor is not None else ""

    def stored(self, name: str) -> onnx.TensorProto | None:
        """The tensor behind a name that no node computes, None for one that is sparse or written otherwise."""
        home = self.scope.home(name)
        if home is None:
            return None
        if name in home.initializers:
            return home.initializers[name]
        maker = home.producers.get(name)
        value = maker.attribute("value") if maker is not None and maker.op == "Constant" else None
        return None if value is None else value.t

    @cached_property
    def said(self) -> list[Hashable]:
        """What the attributes of each node say, those that hold graphs apart."""
        versions = self.scope.versions
        return [
            said_in([item for item in node.proto.attribute if item.type not in GRAPHS], node.op, versions)
            for node in self.nodes
        ]

    @cached_property
    def sizes(self) -> frozenset[int]:
        """The nodes that look at nothing but sizes, and what they alone read: exporters write these in many ways."""
        found, fixed = set[int](), set[int]()
        for at in self.order:
            node, reads = self.nodes[at], self.reads[at]
            if any(item.type in GRAPHS for item in node.proto.attribute) or is_random(node.proto):
                continue
            made = {maker for kind, maker, _ in reads if kind == MADE}
            if record(node.op).reads_shape:
                found.add(at)
            elif not (made - found - fixed) and all(kind != GIVEN for kind, _, _ in reads):
                (found if made & found else fixed).add(at)
        for at in reversed(self.order):
            readers = {who for _, who, _ in self.readers[at]}
            if at in fixed and readers and readers <= found:
                found.add(at)
        return frozenset(found - self.ends.keys())

    @cached_property
    def paths(self) -> list[tuple[str, ...]]:
        """The scopes that the exporter noted for each node."""
        return [path_of(node.proto) for node in self.nodes]

    @cached_property
    def order(self) -> Sequence[int]:
        """The nodes, each behind those that make what it reads."""
        if not self.scope.is_unsorted:
            return range(len(self.nodes))
        waiting = [len({maker for kind, maker, _ in reads if kind == MADE}) for reads in self.reads]
        ready = [at for at, count in enumerate(waiting) if not count]
        found = []
        while ready:
            at = ready.pop()
            found.append(at)
            for reader in {who for _, who, _ in self.readers[at]}:
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready.append(reader)
        return found


def ends_of(scope: Scope) -> tuple[list[str], list[str]]:
    """The names of what a scope is given and of what it returns."""
    sides = (scope.proto.input, scope.proto.output)
    given, ends = ([item if isinstance(item, str) else item.name for item in side] for side in sides)
    return given, ends


def _size(dims: Sequence[int]) -> int:
    size = 1
    for length in dims:
        size *= length
    return size
