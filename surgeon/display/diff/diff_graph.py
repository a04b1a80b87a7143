"""A graph prepared for a comparison: numbered nodes, the sources of their inputs, and keys without names."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property

import onnx
from onnx import AttributeProto

from surgeon.ir.equivalence import attribute_key, key_of_attributes
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traits.trait_lookup import COMMUTATIVE, is_random, traits_of
from surgeon.ops.traversal import GRAPHS, captured_names
from surgeon.targets.inspection.provenance import module_path

TENSORS = (AttributeProto.TENSOR, AttributeProto.TENSORS, AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS)
SMALL = 16  # elements of a constant that is compared by value
PRODUCED, INPUT, STORED, OMITTED = range(4)  # the kinds of sources of an input
InputSource = tuple[int, int, Hashable]
"""The kind; the producer's number, else -1; the producer's output position, a name, or the content of a constant."""


class DiffGraph:
    """The nodes of one scope except Constants, whose values belong to their consumers.

    by_name: whether inputs and outputs are identified by name, as in the other graph, or by position.  outside: for
    captured tensors, a key that their counterparts in the other model have too.
    """

    def __init__(self, index: Index, scope: Scope, by_name: bool, outside: Mapping[str, Hashable]) -> None:
        self.index, self.scope, self.outside = index, scope, outside
        self._input_positions = {} if by_name else {name: place for place, name in enumerate(scope.input_names)}
        self.nodes: list[Node] = [node for node in scope.nodes if node.op != "Constant"]
        self._producers = {  # the number of the node, and the position of the output
            name: (at, place) for at, node in enumerate(self.nodes) for place, name in enumerate(node.outputs) if name
        }
        self.inputs: list[Sequence[str]] = []  # for a commutative op, produced tensors come first
        self.sources: list[list[InputSource]] = []
        for node in self.nodes:
            sources, names = [self.source(name) for name in node.inputs], node.inputs
            if node.op in COMMUTATIVE and len(sources) == 2 and sources[0][0] > sources[1][0]:
                sources, names = sources[::-1], names[::-1]
            self.sources.append(sources)
            self.inputs.append(names)
        # By node: (output position, consumer, input position)
        self.consumers: list[list[tuple[int, int, int]]] = [[] for _ in self.nodes]
        for at, sources in enumerate(self.sources):
            for slot, (kind, producer, place) in enumerate(sources):
                if kind == PRODUCED and isinstance(place, int):
                    self.consumers[producer].append((place, at, slot))
        self._consume_captures()
        # Graph outputs by key, and the node and output position that produce them.
        self.outputs = {name if by_name else str(place): name for place, name in enumerate(scope.output_names)}
        self.output_producers = {
            key: self._producers[name] for key, name in self.outputs.items() if name in self._producers
        }

    @cached_property
    def graph_outputs(self) -> dict[int, tuple[tuple[int, str], ...]]:
        """For each node the graph outputs that it produces: output position and key."""
        found: dict[int, tuple[tuple[int, str], ...]] = {}
        for key, (at, place) in self.output_producers.items():
            found[at] = (*found.get(at, ()), (place, key))
        return found

    def _consume_captures(self) -> None:
        """Make each node a consumer of the tensors that its bodies capture, as input -1."""
        for at, node in enumerate(self.nodes):
            if self.index.bodies(node):
                made = [self._producers[name] for name in captured_names(node.proto) if name in self._producers]
                for producer, place in made:
                    self.consumers[producer].append((place, at, -1))

    def source(self, name: str) -> InputSource:
        """The source of a tensor that a node or an output of this graph reads."""
        if not name:
            return OMITTED, -1, ""
        if name in self._producers:
            return PRODUCED, *self._producers[name]
        home = self.scope.defining_scope(name)
        if home is self.scope and name in home.inputs and name not in home.initializers:
            return INPUT, -1, self._input_positions.get(name, name)
        if home is None or (name in home.inputs and name not in home.initializers):
            return INPUT, -1, self.outside.get(name, name)
        if home is not self.scope and name in home.producers and home.producers[name].op != "Constant":
            return INPUT, -1, self.outside.get(name, name)
        return STORED, -1, self.content(name)

    def outside_of_bodies(self, depth: int, numbers: Mapping[int, int]) -> dict[str, Hashable]:
        """The argument `outside` for the bodies of nodes.  depth: of this graph.  numbers: equal for paired nodes."""
        given = {name: (depth, "given", self._input_positions.get(name, name)) for name in self.scope.inputs}
        unpaired = {name: name for name, (at, _) in self._producers.items() if at not in numbers}
        paired = {name: (depth, numbers[at], place) for name, (at, place) in self._producers.items() if at in numbers}
        return {**self.outside, **given, **unpaired, **paired}

    def content(self, name: str) -> Hashable:
        """The content of a stored tensor: a small one by value, a large one by dtype and shape."""
        tensor = self.stored(name)
        if tensor is not None and _element_count(tensor.dims) > SMALL:
            return tensor.data_type, tuple(tensor.dims)
        value = self.index.constants.get(self.scope, name)
        if value is not None:
            return value.content
        return (tensor.data_type, tuple(tensor.dims)) if tensor is not None else self._other_content(name)

    def _other_content(self, name: str) -> Hashable:
        """The content of another constant: a sparse tensor by its data, a Constant by its attributes."""
        home = self.scope.defining_scope(name)
        if home is None:
            return ""
        if name in home.sparse:
            return self._bytes_of(home.sparse[name])
        producer = home.producers.get(name)
        sparse = producer.attribute("sparse_value") if producer is not None else None
        if sparse is not None and not sparse.ref_attr_name:
            return self._bytes_of(sparse.sparse_tensor)
        return attribute_key(producer) if producer is not None else ""  # in a function, an argument of the call

    def _bytes_of(self, tensor: onnx.SparseTensorProto) -> Hashable:
        """The data of a sparse tensor."""
        values, indices = tensor.values, tensor.indices
        arrays = self.index.model.value(values), self.index.model.value(indices)
        return tuple(tensor.dims), tuple(indices.dims), values.data_type, *(array.tobytes() for array in arrays)

    def stored(self, name: str) -> onnx.TensorProto | None:
        """The stored tensor of a name; None for a sparse tensor or another form of constant."""
        home = self.scope.defining_scope(name)
        if home is None:
            return None
        if name in home.initializers:
            return home.initializers[name]
        producer = home.producers.get(name)
        value = producer.attribute("value") if producer is not None and producer.op == "Constant" else None
        return None if value is None or value.ref_attr_name else value.t

    def is_sparse(self, name: str) -> bool:
        """Whether a stored tensor is sparse."""
        home = self.scope.defining_scope(name)
        producer = None if home is None else home.producers.get(name)
        is_written_so = producer is not None and producer.attribute("sparse_value") is not None
        return home is not None and (name in home.sparse or is_written_so)

    @cached_property
    def attribute_keys(self) -> list[Hashable]:
        """For each node a key of its attributes without graphs, and of the overload that it calls."""
        versions = self.scope.versions
        protos = [node.proto for node in self.nodes]
        plain = ([self._with_data(item) for item in proto.attribute if item.type not in GRAPHS] for proto in protos)
        keys = [key_of_attributes(items, node.op, versions) for items, node in zip(plain, self.nodes, strict=True)]
        return [(key, proto.overload) if proto.overload else key for key, proto in zip(keys, protos, strict=True)]

    def _with_data(self, item: AttributeProto) -> AttributeProto:
        """An attribute with the data of its tensors in place of their locations in files."""
        if item.type not in TENSORS:
            return item
        made: AttributeProto = AttributeProto.FromString(self.index.model.serialize(item))
        return made

    @cached_property
    def size_nodes(self) -> frozenset[int]:
        """The nodes that only compute sizes, and the constants that only they read: exporters differ in these."""
        found, fixed = set[int](), set[int]()
        for at in range(len(self.nodes)):
            node, sources = self.nodes[at], self.sources[at]
            if any(item.type in GRAPHS for item in node.proto.attribute) or is_random(node.proto):
                continue
            made = {producer for kind, producer, _ in sources if kind == PRODUCED}
            if traits_of(node.op).shape.reads_only_shape:
                found.add(at)
            elif not (made - found - fixed) and all(kind != INPUT for kind, _, _ in sources):
                (found if made & found else fixed).add(at)
        for at in reversed(range(len(self.nodes))):
            consumers = {who for _, who, _ in self.consumers[at]}
            if at in fixed and consumers and consumers <= found:
                found.add(at)
        return frozenset(found - self.graph_outputs.keys())

    @cached_property
    def paths(self) -> list[tuple[str, ...]]:
        """The module scopes of each node, from the exporter."""
        return [module_path(node.proto) for node in self.nodes]


def _element_count(dims: Sequence[int]) -> int:
    size = 1
    for length in dims:
        size *= length
    return size
