"""Def-use chains of a model's scopes, for following an input to its uses: consumers, producers, known sizes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from surgeon.file.tensors.decoding import decode_tensor
from surgeon.ops.traits.trait_lookup import WITH_BODIES, guess_node_traits
from surgeon.ops.traversal import FunctionKey, attribute_graphs, called_function_key, function_key
from surgeon.shapes.constraints.input_dims import input_dims


@dataclass(slots=True, eq=False)
class DefUseScope:
    """One graph or function body."""

    parent: "DefUseScope | None"
    """Enclosing graph; None: the main graph or a function."""
    inputs: list[str]
    """Names of the inputs."""
    outputs: list[str]
    """Names of the outputs."""
    uses: dict[str, list[tuple[NodeProto, int, "DefUseScope"]]] = field(default_factory=dict)
    """Tensor -> (consumer, input slot, scope of the consumer), nested bodies included."""
    producers: dict[str, NodeProto] = field(default_factory=dict)
    """Tensor -> producer."""
    bodies: dict[int, list[tuple[str, "DefUseScope"]]] = field(default_factory=dict)
    """id(node) -> (attribute, body) for each body of the node."""
    node: NodeProto | None = None
    """The node whose body it is, if any."""
    initializers: dict[str, TensorProto] = field(default_factory=dict)
    """Tensor -> initializer."""
    types: dict[str, ValueInfoProto] = field(default_factory=dict)
    """Tensor -> declared type."""

    def owner(self, name: str) -> "DefUseScope":
        """Return the innermost scope that defines `name`, or this one if none does."""
        scope: DefUseScope | None = self
        while scope is not None:
            if name in scope.producers or name in scope.initializers or name in scope.inputs:
                return scope
            scope = scope.parent
        return self


class DefUseGraph:
    """All scopes of a model.  Nodes belong to the model: keep it alive as long as this."""

    def __init__(self, model: ModelProto) -> None:
        self._functions = {function_key(function): function for function in model.functions}
        self._function_scopes: dict[FunctionKey, DefUseScope] = {}
        self._alive: list[NodeProto] = []
        self.main = self._graph(model.graph, None)

    def function(self, node: NodeProto) -> DefUseScope | None:
        """Return the scope of the local function that `node` calls, or None."""
        key = called_function_key(node)
        if key not in self._functions:
            return None
        if key not in self._function_scopes:
            function = self._functions[key]
            scope = DefUseScope(None, list(function.input), list(function.output))
            self._function_scopes[key] = scope
            self._nodes(function.node, scope)
        return self._function_scopes[key]

    def _graph(self, graph: GraphProto, parent: DefUseScope | None) -> DefUseScope:
        scope = DefUseScope(parent, [value.name for value in graph.input], [value.name for value in graph.output])
        scope.initializers = {tensor.name: tensor for tensor in graph.initializer}
        scope.types = {value.name: value for value in (*graph.value_info, *graph.output, *graph.input)}
        self._nodes(graph.node, scope)
        return scope

    def _nodes(self, nodes: Iterable[NodeProto], scope: DefUseScope) -> None:
        uses, producers = scope.uses, scope.producers
        for node in nodes:
            for slot, name in enumerate(node.input):
                if name in uses:
                    uses[name].append((node, slot, scope))
                elif name:
                    uses[name] = [(node, slot, scope)]
            for name in node.output:
                producers[name] = node
            if not node.domain and node.op_type not in WITH_BODIES:
                continue
            self._alive.append(node)  # `bodies` uses id(node), which is valid only while the node's wrapper lives
            for attribute in node.attribute:
                for graph in attribute_graphs(attribute):
                    self._body(node, attribute.name, graph, scope)

    def _body(self, node: NodeProto, attribute: str, graph: GraphProto, scope: DefUseScope) -> None:
        body = self._graph(graph, scope)
        body.node = node
        scope.bodies.setdefault(id(node), []).append((attribute, body))
        for name, uses in body.uses.items():
            if name not in body.producers and name not in body.initializers and name not in body.inputs:
                scope.uses.setdefault(name, []).extend(uses)

    def constant(self, scope: DefUseScope, name: str) -> np.ndarray | None:
        """Return the value of a constant (initializer or Constant node), or None, also if its payload is cut out."""
        owner = scope.owner(name)
        tensor = owner.initializers.get(name)
        if tensor is None:
            node = owner.producers.get(name)
            if node is None or node.op_type != "Constant" or not node.attribute:
                return None
            attribute = node.attribute[0]
            if attribute.type != AttributeProto.TENSOR:
                found = onnx.helper.get_attribute_value(attribute)
                return np.asarray(found) if isinstance(found, (int, float, list)) else None
            tensor = attribute.t
        return None if tensor.data_location == TensorProto.EXTERNAL else decode_tensor(tensor)

    def dim(self, scope: DefUseScope, name: str, axis: int) -> int | str | None:
        """Return the size of `name` along `axis`: a number, the key of a dynamic dim, or None if unknown."""
        for _ in range(16):  # chains of layout ops before a table are short
            owner = scope.owner(name)
            dims: list[int | str] | None = None
            if name in owner.initializers:
                dims = list(owner.initializers[name].dims)
            node = owner.producers.get(name)
            if dims is None and node is not None and node.op_type == "Constant":
                value = next((list(a.t.dims) for a in node.attribute if a.type == AttributeProto.TENSOR), None)
                dims = list(value) if value is not None else None
            if dims is None and name in owner.types and owner.types[name].type.tensor_type.HasField("shape"):
                dims = input_dims(owner.types[name])
            if dims is not None:
                return dims[axis] if -len(dims) <= axis < len(dims) else None
            if node is None or not node.input:
                return None
            if node.op_type == "Transpose":
                perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), [])
                if not -len(perm) <= axis < len(perm):
                    return None
                axis = perm[axis]
            elif not guess_node_traits(node).keeps_shape or name != node.output[0]:
                return None
            scope, name = owner, node.input[0]
        return None
