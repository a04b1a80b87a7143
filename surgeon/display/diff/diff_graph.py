"""One graph as it is compared: nodes by number, who makes what each reads, and what each is apart from its name."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property

import onnx
from onnx import AttributeProto

from surgeon.ir.equivalence import attribute_key, key_of_attributes
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import COMMUTATIVE, is_random, traits_of
from surgeon.ops.traversal import GRAPHS
from surgeon.targets.inspection.module_scopes import module_path

TENSORS = (
    AttributeProto.TENSOR, AttributeProto.TENSORS, AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS
)
SMALL = 16  # elements of a constant that is told by value
MADE, GIVEN, STORED, LEFT_OUT = range(4)  # where what a node reads comes from
Read = tuple[int, int, Hashable]
"""Where from; the node that makes it, else -1; its place among that one's outputs, a name, or what it holds."""


class DiffGraph:
    """The nodes of one scope but Constants, which are what others hold.

    by_name: whether inputs and outputs go by their names, which are those of the other graph, or by their order.
    outside: for tensors around a body what they and their counterparts in the other model go by.
    """

    def __init__(self, index: Index, scope: Scope, by_name: bool, outside: Mapping[str, Hashable]) -> None:
        self.index, self.scope, self.outside = index, scope, outside
        self._given = {} if by_name else {name: place for place, name in enumerate(inputs_and_outputs(scope)[0])}
        self.nodes: list[Node] = [node for node in scope.nodes if node.op != "Constant"]
        self._number = {name: at for at, node in enumerate(self.nodes) for name in node.outputs if name}
        self._place = {name: place for node in self.nodes for place, name in enumerate(node.outputs) if name}
        self.inputs: list[Sequence[str]] = []  # as they are compared: of a commutative op what a node makes comes first
        self.reads: list[list[Read]] = []
        for node in self.nodes:
            reads, names = [self.read(name) for name in node.inputs], node.inputs
            if node.op in COMMUTATIVE and len(reads) == 2 and reads[0][0] > reads[1][0]:
                reads, names = reads[::-1], names[::-1]
            self.reads.append(reads)
            self.inputs.append(names)
        self.readers: list[list[tuple[int, int, int]]] = [[] for _ in self.nodes]  # (place, who reads, as which input)
        for at, reads in enumerate(self.reads):
            for slot, (kind, maker, place) in enumerate(reads):
                if kind == MADE and isinstance(place, int):
                    self.readers[maker].append((place, at, slot))
        self._captures = self._captured()
        # What the graph hands on, whoever makes it; of what its nodes make: the node, and which of its outputs that is.
        self.outputs = {
            name if by_name else str(place): name for place, name in enumerate(inputs_and_outputs(scope)[1])
        }
        made = {key: name for key, name in self.outputs.items() if name in self._number}
        self.makers = {key: (self._number[name], self._place[name]) for key, name in made.items()}
        self.ends: dict[int, tuple[tuple[int, str], ...]] = {}
        for key, (at, place) in self.makers.items():
            self.ends[at] = (*self.ends.get(at, ()), (place, key))

    def _captured(self) -> dict[int, set[int]]:
        """For each node the nodes whose outputs its bodies read; it becomes a reader of these, as input -1."""
        found: dict[int, set[int]] = {}
        if not self.scope.bodies:
            return found
        numbers = {node: at for at, node in enumerate(self.nodes)}
        for name, maker in self._number.items():
            inner = {node.scope for node in self.scope.consumers.get(name, ()) if node.scope is not self.scope}
            for at in sorted({numbers[_holder(scope, self.scope)] for scope in inner}):
                found.setdefault(at, set()).add(maker)
                self.readers[maker].append((self._place[name], at, -1))
        return found

    def read(self, name: str) -> Read:
        """Where a tensor comes from that this graph reads or hands on."""
        if not name:
            return LEFT_OUT, -1, ""
        if name in self._number:
            return MADE, self._number[name], self._place[name]
        home = self.scope.defining_scope(name)
        if home is self.scope and name in home.inputs and name not in home.initializers:
            return GIVEN, -1, self._given.get(name, name)
        if home is None or (name in home.inputs and name not in home.initializers):
            return GIVEN, -1, self.outside.get(name, name)
        if home is not self.scope and name in home.producers and home.producers[name].op != "Constant":
            return GIVEN, -1, self.outside.get(name, name)
        return STORED, -1, self.held(name)

    def seen_from_inside(self, depth: int, numbers: Mapping[int, int]) -> dict[str, Hashable]:
        """What `outside` is to the bodies of nodes here.

        depth: how many graphs lie around this one.  numbers: of nodes with a counterpart, a number that both go by.
        """
        given = {name: (depth, "given", self._given.get(name, name)) for name in self.scope.inputs}
        made = {name: at for name, at in self._number.items() if at in numbers}
        paired = {name: (depth, numbers[at], self._place[name]) for name, at in made.items()}
        lost = {name: name for name, at in self._number.items() if at not in numbers}
        return {**self.outside, **given, **lost, **paired}

    def held(self, name: str) -> Hashable:
        """What a stored tensor is: a small one by value, a large one by dtype and shape."""
        tensor = self.stored(name)
        if tensor is not None and _size(tensor.dims) > SMALL:
            return tensor.data_type, tuple(tensor.dims)
        value = self.index.constants.get(self.scope, name)
        if value is not None:
            return value.content
        return (tensor.data_type, tuple(tensor.dims)) if tensor is not None else self._otherwise(name)

    def _otherwise(self, name: str) -> Hashable:
        """What a tensor holds that is neither dense nor small: of a sparse one all, of a Constant what it says."""
        home = self.scope.defining_scope(name)
        if home is None:
            return ""
        if name in home.sparse:
            return self._bytes_of(home.sparse[name])
        maker = home.producers.get(name)
        sparse = maker.attribute("sparse_value") if maker is not None else None
        if sparse is not None and not sparse.ref_attr_name:
            return self._bytes_of(sparse.sparse_tensor)
        return attribute_key(maker) if maker is not None else ""  # in a function, what is given to the call

    def _bytes_of(self, tensor: onnx.SparseTensorProto) -> Hashable:
        """What a sparse tensor holds, by its bytes."""
        values, indices = tensor.values, tensor.indices
        arrays = self.index.model.value(values), self.index.model.value(indices)
        return tuple(tensor.dims), tuple(indices.dims), values.data_type, *(array.tobytes() for array in arrays)

    def stored(self, name: str) -> onnx.TensorProto | None:
        """The tensor behind a name that no node computes, None for one that is sparse or written otherwise."""
        home = self.scope.defining_scope(name)
        if home is None:
            return None
        if name in home.initializers:
            return home.initializers[name]
        maker = home.producers.get(name)
        value = maker.attribute("value") if maker is not None and maker.op == "Constant" else None
        return None if value is None or value.ref_attr_name else value.t

    def is_sparse(self, name: str) -> bool:
        """Whether a tensor that no node computes is stored by its numbers other than zero alone."""
        home = self.scope.defining_scope(name)
        maker = None if home is None else home.producers.get(name)
        is_written_so = maker is not None and maker.attribute("sparse_value") is not None
        return home is not None and (name in home.sparse or is_written_so)

    @cached_property
    def said(self) -> list[Hashable]:
        """What the attributes of each node say, those that hold graphs apart, and which overload it calls."""
        versions = self.scope.versions
        protos = [node.proto for node in self.nodes]
        plain = ([self._whole(item) for item in proto.attribute if item.type not in GRAPHS] for proto in protos)
        said = [key_of_attributes(items, node.op, versions) for items, node in zip(plain, self.nodes, strict=True)]
        return [(one, proto.overload) if proto.overload else one for one, proto in zip(said, protos, strict=True)]

    def _whole(self, item: AttributeProto) -> AttributeProto:
        """An attribute with the data of tensors in it, which say more than where they lie in their files."""
        if item.type not in TENSORS:
            return item
        made: AttributeProto = AttributeProto.FromString(self.index.model.serialize(item))
        return made

    @cached_property
    def sizes(self) -> frozenset[int]:
        """The nodes that look at nothing but sizes, and what they alone read: exporters write these in many ways."""
        found, fixed = set[int](), set[int]()
        for at in self.order:
            node, reads = self.nodes[at], self.reads[at]
            if any(item.type in GRAPHS for item in node.proto.attribute) or is_random(node.proto):
                continue
            made = {maker for kind, maker, _ in reads if kind == MADE}
            if traits_of(node.op).shape.reads_only_shape:
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
        return [module_path(node.proto) for node in self.nodes]

    @cached_property
    def order(self) -> Sequence[int]:
        """The nodes, each behind those that make what it reads."""
        if not self.scope.is_unsorted:
            return range(len(self.nodes))
        makers = [{maker for kind, maker, _ in reads if kind == MADE} for reads in self.reads]
        waiting = [len(made | self._captures.get(at, set())) for at, made in enumerate(makers)]
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


def _holder(inner: Scope, outer: Scope) -> Node:
    """The node of a scope in which another scope lies."""
    while inner.parent is not outer and inner.parent is not None:
        inner = inner.parent
    assert inner.owner is not None, "a function reads nothing of what is around it"
    return inner.owner


def inputs_and_outputs(scope: Scope) -> tuple[list[str], list[str]]:
    """The names of what a scope is given and of what it returns."""
    sides = (scope.proto.input, scope.proto.output)
    given, ends = ([item if isinstance(item, str) else item.name for item in side] for side in sides)
    return given, ends


def _size(dims: Sequence[int]) -> int:
    size = 1
    for length in dims:
        size *= length
    return size
