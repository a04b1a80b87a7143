"""A copy of an index as an `onnx_ir.Model`, in which the matcher of onnxscript looks for sites.

The copy has the names of the index.  A step that the index accepts is repeated in the copy, so that a pass over its
nodes sees the result.  Weights stay in their file: a large tensor is read when a rule asks for its value.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import Any

import onnx
import onnx_ir
from onnxscript.optimizer import basic_constant_propagation

from surgeon.connected_components import reachable
from surgeon.errors import ConditionFailed
from surgeon.file.external_data.locations import EXTERNAL, tensors_of
from surgeon.integrations.ir_difference import fill
from surgeon.ir.index import Index
from surgeon.ir.index_patch import commit
from surgeon.ir.scope import Node, Scope
from surgeon.shapes.algebra.size_expressions import symbols
from surgeon.shapes.index_shapes import shapes_of


@dataclass(eq=False, repr=False, slots=True)  # its text would contain weights
class CopiedSite:
    """A match of onnxscript and its replacement, in terms of the index."""

    delta: Any
    """The `ReplacementSubgraph` of onnxscript; None for a match that it could not replace."""
    nodes: Mapping[Node, Any]
    """Nodes to remove, in file order, each with that of the copy."""
    outputs: Mapping[str, Any]
    """By replaced tensor with readers, the new value."""
    kept: tuple[Node, ...] = ()
    """Other nodes of the match, which stay."""
    reads: Mapping[Any, str] = field(default_factory=dict)
    """By value that the replacement reads and does not make, its name; "" for a tensor that the index lacks."""
    attributes: Sequence[Sequence[onnx.AttributeProto]] = ()
    """Attributes of each new node."""
    refusal: Exception | None = None
    """Why the match must stay; None if it may be replaced."""

    @property
    def constants(self) -> Mapping[Any, Any]:
        """The value of each new constant, as an array."""
        return {value: value.const_value.numpy() for value in self.delta.new_initializers}

    @property
    def content(self) -> int:
        """A hash of the replacement, which may depend on more than the match: a rule can have a state."""
        if self.delta is None:
            return hash(str(self.refusal))
        known: dict[Any, Any] = {None: None, **self.reads}
        known.update((value, place) for place, value in enumerate(_made(self.delta)))
        known.update((value, array.tobytes()) for value, array in self.constants.items())
        parts = [known[value] for value in self.outputs.values()]
        for node, attributes in zip(self.delta.new_nodes, self.attributes, strict=True):
            parts += (node.domain, node.op_type, *(known[value] for value in node.inputs))
            parts += (item.SerializeToString() for item in attributes)
        return hash(tuple(parts))


@dataclass(eq=False, slots=True)
class MatcherCopy:
    """The copy of one index."""

    index: Index
    """The index."""
    model: Any = field(init=False)
    """The `onnx_ir.Model`."""
    names: dict[Any, str] = field(default_factory=dict)
    """Names of values in the index; "" for a value that it lacks."""
    _nodes: Sequence[Sequence[Node]] = ()  # of each scope when the copy was made

    def __post_init__(self) -> None:
        proto = onnx.ModelProto()
        proto.CopyFrom(self.index.model.skeleton)
        commit(self.index, proto)
        self._nodes = [scope.live_nodes() for scope in self.index.scopes]
        stored: list[onnx.TensorProto] = []
        for tensor in (tensor for tensor in tensors_of(proto) if tensor.data_location == EXTERNAL):
            stored.append(onnx.TensorProto())
            stored[-1].CopyFrom(tensor)
            del tensor.external_data[:]
            tensor.external_data.add(key="location", value=str(len(stored) - 1))
        self.model = onnx_ir.from_proto(proto)
        mains = [self.model.graph, *(function.graph for function in self.model.functions.values())]
        for main in mains:
            fill(main, partial(self._on_demand, stored=stored))
        for graph in (graph for main in mains for graph in (main, *main.subgraphs())):
            values = (*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs))
            self.names.update((value, value.name or "") for value in values)

    @property
    def is_current(self) -> bool:
        """Whether the index is as it was then.  After own steps, the copy has nodes that the index no longer has."""
        return all(scope.live_nodes() is nodes for scope, nodes in zip(self.index.scopes, self._nodes, strict=True))

    def _on_demand(self, tensor: Any, stored: Sequence[onnx.TensorProto]) -> Any:
        """The same tensor, which reads its data when a rule asks for them if they are not in memory."""
        if not isinstance(tensor, onnx_ir.ExternalTensor):
            return tensor
        source, model, dtype = stored[int(str(tensor.location))], self.index.model, tensor.dtype

        def read() -> Any:
            return onnx_ir.Tensor(model.value(source), dtype=dtype)

        return onnx_ir.LazyTensor(read, dtype=dtype, shape=tensor.shape, name=tensor.name)

    def graph(self, scope: Scope) -> Any:
        """The graph or function of a scope; types that the file leaves open are those that surgeon infers."""
        found, shapes = self._graph(scope), shapes_of(self.index)
        basic_constant_propagation(found)  # before rules, as onnxscript does
        for value in (value for node in found for value in node.outputs):
            if value.name and (value.shape is None or value.dtype is None):
                dtype, shape = shapes.facts(scope, value.name)
                if value.dtype is None and dtype is not None:
                    value.dtype = onnx_ir.DataType(dtype)
                if value.shape is None and shape is not None:
                    value.shape = onnx_ir.Shape([_dimension(size) for size in shape])
        return found

    def _graph(self, scope: Scope) -> Any:
        owner, proto = scope.owner, scope.proto
        if scope.parent is not None and owner is not None:
            nodes = (node for node in self._graph(scope.parent) if _names(node.outputs) == owner.outputs)
            item, place = next(nodes).attributes[scope.attribute], scope.address[-1][1]
            return item.value if item.type == onnx_ir.AttributeType.GRAPH else item.value[place]
        if isinstance(proto, onnx.GraphProto):
            return self.model.graph
        return self.model.functions[proto.domain, proto.name, proto.overload]

    def _name(self, value: Any) -> str:
        """The name of a value in the index; empty if the index lacks it."""
        return self.names.get(value, "")

    def _node(self, scope: Scope, node: Any) -> Node | None:
        """A node of the copy in the index; None if rules removed it, or if it is in another scope."""
        return next(filter(None, (scope.producers.get(self._name(value)) for value in node.outputs)), None)

    def refused(self, scope: Scope, node: Any, refusal: Exception) -> CopiedSite | None:
        """A match at a node that onnxscript could not replace; the nodes of its replacement are detached."""
        strays = {user for value in self.names for user, _ in value.uses() if user.graph is None}
        self._detach(strays)
        root = self._node(scope, node)
        used = () if root is None else compress(root.outputs, self.index.used(root))
        return None if root is None else CopiedSite(None, {root: node}, dict.fromkeys(used), refusal=refusal)

    def site(self, scope: Scope, delta: Any) -> CopiedSite | None:
        """A replacement of onnxscript as a site; None if the index has removed its nodes, or does not need them."""
        basic_constant_propagation(delta.new_nodes)
        pairs = zip(map(self._name, delta.match.outputs), delta.new_outputs, strict=True)
        outputs = {name: value for name, value in pairs if name in scope.producers and scope.is_needed(name)}
        found = [(self._node(scope, node), node) for node in reversed(delta.match.nodes)]
        matched = {node: copied for node, copied in found if node is not None}
        if not outputs or len(matched) < len(found):
            self.forget(delta)
            return None
        own = {*_made(delta), *delta.new_initializers, None}
        read = [*(value for node in delta.new_nodes for value in node.inputs), *delta.new_outputs]
        reads = {value: self._name(value) for value in read if value not in own}
        gone = sorted(_removable(scope, matched, outputs, set(reads.values())), key=lambda node: node.slot)
        made = CopiedSite(delta, {node: matched[node] for node in gone} or matched, outputs, reads=reads)
        made.kept = tuple(node for node in matched if node not in made.nodes)
        made.attributes = [[onnx_ir.to_proto(item) for item in node.attributes.values()] for node in delta.new_nodes]
        made.refusal = _refusal(scope, made)
        return made

    def forget(self, delta: Any) -> None:
        """Detach the nodes of a refused replacement, which else are further uses of the tensors that they read."""
        self._detach(delta.new_nodes if delta is not None else ())

    def _detach(self, nodes: Iterable[Any]) -> None:
        for node in nodes:
            for place in range(len(node.inputs)):
                node.replace_input_with(place, None)

    def apply(self, site: CopiedSite, scope: Scope, graph: Any, node: Any) -> None:
        """Repeat a step of the index: as onnxscript does, but with the names of the index."""
        delta, new, made = site.delta, list(site.delta.new_nodes), {*_made(site.delta)}
        for old, value in zip(delta.match.outputs, delta.new_outputs, strict=True):
            if value in made:
                for known in ("type", "shape", "const_value"):
                    if getattr(old, known) is not None:
                        setattr(value, known, getattr(old, known))
                self.names.setdefault(value, self._name(old))
        for one in reversed(new):
            for value, name in _named(one, self._node(scope, one)):
                self.names.setdefault(value, name)
        for value in delta.new_initializers if isinstance(graph, onnx_ir.Graph) else ():
            value.name = self._name(value)
            if value.name and value.name not in graph.initializers:
                graph.initializers[value.name] = value
        onnx_ir.convenience.replace_all_uses_with(delta.match.outputs, delta.new_outputs, replace_graph_outputs=True)
        graph.insert_after(node, new)
        graph.remove(list(site.nodes.values()), safe=True)


@dataclass(eq=False, slots=True)
class _LastCopy:
    """The last copy of an index."""

    copy: MatcherCopy | None = None
    """The copy; None before the first."""


def copy_of(index: Index, scope: Scope) -> MatcherCopy:
    """The copy of an index for a pass over a scope; a rule set begins with the main graph, and with a current copy."""
    last = index.cached_analysis(_LastCopy, _LastCopy)
    if last.copy is None or (scope is index.main and not last.copy.is_current):
        last.copy = MatcherCopy(index)
    return last.copy


def _dimension(size: Any) -> int | str | None:
    """A size for onnx_ir; None if it is unknown."""
    return size if isinstance(size, int) else None if any(name[0] == "?" for name in symbols(size)) else str(size)


def _names(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(value.name or "" for value in values)


def _made(delta: Any) -> list[Any]:
    """The values that the nodes of a replacement make."""
    return [value for node in delta.new_nodes for value in node.outputs]


def _named(node: Any, there: Node | None) -> Iterator[tuple[Any, str]]:
    """The values of a new node with their names in the index; "" for outputs that it lacks."""
    if there is not None:
        yield from zip(node.inputs, there.inputs, strict=False)
        yield from zip(node.outputs, there.outputs, strict=False)
    yield from ((value, "") for value in node.outputs)


def _removable(scope: Scope, matched: Iterable[Node], outputs: Container[str], reads: Container[str]) -> set[Node]:
    """The matched nodes of which nothing is needed any more, except for the outputs."""
    gone = set(matched)
    while True:
        loose = [name for node in gone for name in node.outputs if name and name not in outputs]
        used = [name for name in loose if name in reads or name in scope.protected or {*scope.readers(name)} - gone]
        if not used:
            return gone
        gone -= {scope.producers[name] for name in used}


def _refusal(scope: Scope, site: CopiedSite) -> ConditionFailed | None:
    """Why the index cannot have a replacement; None if it can."""
    stays = [name for name in site.outputs if scope.producers[name] not in site.nodes]
    own = next((name for name in site.reads.values() if name in site.outputs), None)
    if not all(site.reads.values()):
        return ConditionFailed("it reads a tensor of a replacement that was refused")
    if own is not None:
        return ConditionFailed(f"it reads {own!r}, which it replaces")
    if stays:
        return ConditionFailed(f"the node that produces {stays[0]!r} must stay for its other outputs")
    again = _reentry(scope, site) if len(site.delta.match.outputs) > 1 else None
    return None if again is None else ConditionFailed(f"it would read {again!r}, which depends on its own outputs")


def _reentry(scope: Scope, site: CopiedSite) -> str | None:
    """A tensor that the replacement reads and that depends on its outputs."""

    def further(names: Iterable[str]) -> Iterable[Node]:
        for node in (reader for name in names for reader in scope.readers(name)):
            while node.scope is not scope and node.scope.owner is not None:
                node = node.scope.owner
            if node not in site.nodes:
                yield node

    needed, below = set(site.reads.values()), reachable(further(site.outputs), lambda node: further(node.outputs))
    return next((name for node in below for name in node.outputs if name in needed), None)
