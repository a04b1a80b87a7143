"""Producers and consumers of each tensor, in all scopes of a model.

The index is the working copy of a rewrite: `surgeon.rules.replacing.splicer` edits it, and its final state is written.

A file that breaks ONNX's rules is refused first, except for violations that ONNX Runtime accepts, such as an unused
import.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeVar

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, OperatorSetIdProto

from surgeon.errors import GraphError
from surgeon.file.model import InMemoryModel, Model
from surgeon.ir.constants import Constants
from surgeon.ir.function_table import LocalFunctions
from surgeon.ir.scope import Node, Scope, qualified_name, split_op
from surgeon.ops.schemas import schema
from surgeon.ops.schemas.attribute_values import DTYPES
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traits.trait_lookup import BRANCHES, CAST_OPS, FOR_TWO, all_declared, require_declared_inputs
from surgeon.ops.traversal import find_cycle, function_key, imports_of, names_read, require_finite_calls
from surgeon.text import format_count

GRAPH_FIELD, FUNCTION_FIELD = 7, 25
_INPUTS, _OUTPUTS = attrgetter("inputs"), attrgetter("outputs")
T = TypeVar("T")
MAX_VERSION = (1 << 31) - 1  # onnx counts versions in 32 bits
_FIX = "Fix the model or export it again."


def require_sound(model: ModelProto) -> None:
    """Raise GraphError for a model whose header, functions or stored tensors are contradictory."""
    if not 0 <= model.ir_version <= MAX_VERSION:
        raise GraphError(f"The model has IR version {model.ir_version}, which does not exist. {_FIX}")
    _require_imports("The model", model.opset_import)
    for value in model.graph.output:
        if not value.name:
            raise GraphError(f"An output of the graph has no name. {_FIX}")
    for tensor in model.graph.initializer:
        if tensor.data_type not in DTYPES:
            raise GraphError(f"The initializer {tensor.name!r} has the unknown dtype {tensor.data_type}. {_FIX}")
    _require_each_once("initializer", "the graph", (tensor.name for tensor in model.graph.initializer))
    if model.functions:
        _require_functions(model)


def require_types(graph: GraphProto, read: Iterable[str]) -> None:
    """Raise GraphError for an input of the main graph that is read and has no type, which no runtime accepts."""
    untyped = {value.name for value in graph.input if value.type.WhichOneof("value") is None}
    stored = {tensor.name for tensor in graph.initializer} if untyped else set[str]()
    for name in read if untyped else ():
        if name in untyped and name not in stored:
            raise GraphError(f"The input {name!r} of the graph has no type. Declare its dtype, or export it again.")


def _require_imports(who: str, imports: Iterable[OperatorSetIdProto]) -> None:
    known: dict[str, int] = {}
    for item in imports:
        domain, version = normalize_domain(item.domain), item.version
        title = domain or "ai.onnx"
        if not 0 < version <= MAX_VERSION:
            raise GraphError(f"{who} imports opset {version} of {title}, which does not exist. {_FIX}")
        if known.setdefault(domain, version) != version:
            raise GraphError(f"{who} imports the opsets {known[domain]} and {version} of {title}. {_FIX}")


def _require_each_once(kind: str, where: str, names: Iterable[str]) -> None:
    known: set[str] = set()
    for name in names:
        if name in known:
            raise GraphError(f"The {kind} {name!r} exists twice in {where}. {_FIX}")
        known.add(name)


def _require_functions(model: ModelProto) -> None:
    functions = {function_key(function): function for function in model.functions}
    labels = [f"{function.domain}::{function.name}" for function in functions.values()]
    if len(functions) < len(model.functions):
        keys = [function_key(function) for function in model.functions]
        domain, name, _ = next(key for key in keys if keys.count(key) > 1)
        raise GraphError(f"The local function {domain}::{name} exists twice. {_FIX}")
    for label, function in zip(labels, functions.values(), strict=True):
        _require_imports(f"The local function {label}", function.opset_import)
    require_finite_calls(model)


class Index:
    """All scopes of a model.  Raises GraphError for a tensor with two producers in one scope."""

    def __init__(self, model: Model) -> None:
        self.model = model
        proto = model.skeleton
        self.ir_version = int(proto.ir_version)
        self.scopes: list[Scope] = []
        self._notes: dict[type, object] = {}
        self._bodies: dict[Node, list[Scope]] = {}
        versions = imports_of(proto.opset_import)
        self.main = Scope(proto.graph, ((GRAPH_FIELD, 0),), versions)
        self._fill(self.main)
        self.local = LocalFunctions(model)
        self.functions: list[Scope] = []
        self._called: dict[tuple[str, str], Scope] = {}
        for position, function in enumerate(proto.functions):
            label = f"function {function.domain}::{function.name}"
            address = ((FUNCTION_FIELD, position),)
            scope = Scope(function, address, imports_of(function.opset_import) or dict(versions), label=label)
            self.functions.append(scope)
            self._called[qualified_name(function.domain, function.name), function.overload] = scope
            self._fill(scope)
        _protect_training_tensors(self.main, proto)
        self.constants = Constants(model, self.ir_version)

    @classmethod
    def over(cls, proto: ModelProto) -> "Index":
        """The index of a model in memory, for an analysis: its nodes are those of the message, which is not copied.

        The message must not be changed while the index is used, and the index is not edited.
        """
        return cls(InMemoryModel(proto))

    def _fill(self, scope: Scope) -> None:
        self.scopes.append(scope)
        if scope.parent is not None and scope.owner is not None:
            scope.parent._bodies.append(scope)
            self._bodies.setdefault(scope.owner, []).append(scope)
        proto = scope.proto
        if not isinstance(proto, onnx.FunctionProto):
            for note in proto.quantization_annotation:
                scope._protected[note.tensor_name] = "it has a quantization annotation"
                for entry in note.quant_parameter_tensor_names:
                    scope._protected[entry.value] = "a quantization annotation uses it"
        bodies = _add_nodes(scope)
        where = scope.label or "the graph"
        for name in scope.output_names:
            home = scope.defining_scope(name) or scope
            home._protected[name] = f"it is an output of {where}"
        if scope.parent is not None:
            _record_captures(scope)
        for node, attribute_index, graph_index, field, graph in bodies:
            address = (*scope.address, (scope.node_field, node.slot), (5, attribute_index), (field, graph_index))
            label = f"{node.proto.attribute[attribute_index].name} of {node.label}"
            self._fill(Scope(graph, address, scope._versions, parent=scope, owner=node, label=label))

    def cached_analysis(self, kind: type[T], make: Callable[[], T]) -> T:
        """The result of an analysis of a higher package, one per type; computed on first use."""
        found = self._notes.get(kind)
        if not isinstance(found, kind):
            found = self._notes[kind] = make()
        return found

    def bodies(self, node: Node) -> Sequence[Scope]:
        """The bodies of a node of the file, in file order."""
        return self._bodies.get(node, ())

    def called(self, node: Node) -> Scope | None:
        """The local function of the file that a node calls."""
        return self._called.get((node.op, node.proto.overload)) if self._called else None

    def count_nodes(self) -> int:
        """The number of nodes in all scopes of the current model."""
        return sum(scope.count_nodes() for scope in self.scopes if not scope.is_gone)

    def count_constants(self) -> int:
        """The number of Constant nodes among them."""
        return sum(scope.count_constants() for scope in self.scopes if not scope.is_gone)

    def pin_reason(self, scope: Scope, name: str) -> str | None:
        """Why the tensor must stay even without readers; None if it may go."""
        home = scope.defining_scope(name)
        return home.protected.get(name) if home is not None else None

    def used(self, node: Node) -> list[bool]:
        """For each output of a node whether it has readers or must stay."""
        scope = node.scope
        return [
            bool(name) and (scope.is_read(name) or self.pin_reason(scope, name) is not None) for name in node.outputs
        ]

    def is_overridable(self, scope: Scope, name: str) -> bool:
        """Whether an initializer of a scope is an input too, whose value a caller may set (from IR 4 on)."""
        return name in scope.inputs and (self.ir_version >= 4 or scope.parent is not None)

    def check(self) -> None:
        """Raise GraphError for a model that breaks ONNX's rules: a cycle, a duplicate name, a tensor without producer.
        """
        require_sound(self.model.skeleton)
        require_types(self.model.skeleton.graph, self.main.consumers)
        has_kinds = self.model.skeleton.ir_version > 1
        for scope in self.scopes:
            if "" not in scope.versions and any("::" not in op for op in scope.by_op):
                where = scope.label or "The model"
                raise GraphError(f"{where} uses ops of ai.onnx, but imports no version of it. Export it again.")
            for name in scope.output_names:
                if name and scope.defining_scope(name) is None:
                    where = scope.label or "the graph"
                    raise GraphError(f"No node produces {name!r}, an output of {where}. {_FIX}")
            for name in scope._from_outside:
                if name and scope.defining_scope(name) is None:
                    node = scope.consumers[name][0]
                    raise GraphError(f"Node {node.label!r} ({node.op}) reads {name!r}, which no node produces. {_FIX}")
            _require_nodes(scope, has_kinds)
            owner, count = scope.owner, len(scope.output_names)
            if owner is not None and owner.op in BRANCHES and count < len(owner.outputs):
                declares = f"declares {format_count(count, 'output')}, but the node has {len(owner.outputs)}"
                raise GraphError(f"The {scope.attribute} of node {owner.label!r} ({owner.op}) {declares}. {_FIX}")
            if scope._is_unsorted:
                _refuse_cycle(scope)


def _require_nodes(scope: Scope, has_kinds: bool) -> None:
    """Raise GraphError for a node with inputs, outputs or attributes that its op cannot have; rules rely on that much.

    has_kinds: whether attributes have a type field (since IR version 2).
    """
    for op, nodes in scope.by_op.items():
        domain, name = split_op(op)
        known = schema(domain, name, scope.versions.get(domain))
        if known is None:
            continue
        inputs, outputs = known.min_inputs, known.min_outputs
        for node in nodes if known.attributes else ():
            for item in node.proto.attribute:
                wanted = known.attributes.get(item.name)
                if op == "Constant" and item.type == AttributeProto.STRING:
                    continue  # the TorchScript exporter writes string arguments of ATen like this
                may_lack = item.ref_attr_name or not has_kinds
                if wanted is not None and item.type != wanted.type and not (may_lack and not item.type):
                    kind, other = (AttributeProto.AttributeType.Name(number) for number in (item.type, wanted.type))
                    raise GraphError(
                        f"The attribute {item.name} of node {node.label!r} ({op}) has type {kind}, but must have "
                        f"{other}. {_FIX}"
                    )
                if op in CAST_OPS and item.name == "to" and not item.ref_attr_name and item.i not in DTYPES:
                    raise GraphError(f"Node {node.label!r} casts to the unknown dtype {item.i}. Export it again.")
        reads, makes = (min(map(len, map(of, nodes)), default=0) for of in (_INPUTS, _OUTPUTS))
        for node in nodes if reads < inputs or makes < outputs else ():
            if len(node.inputs) < inputs or len(node.outputs) < outputs:
                has = f"{len(node.inputs)} inputs and {len(node.outputs)} outputs"
                needs = f"needs at least {inputs} and {outputs}"
                raise GraphError(f"Node {node.label!r} ({op}) has {has}, but {needs}. {_FIX}")


def _add_nodes(scope: Scope) -> list[tuple[Node, int, int, int, onnx.GraphProto]]:
    """Index the nodes of a scope; returns the bodies that they have."""
    producers, consumers, by_op, nodes = scope._producers, scope._consumers, scope._by_op, scope._nodes
    bodies: list[tuple[Node, int, int, int, onnx.GraphProto]] = []
    made: dict[str, str] = {}  # one string object per tensor, shared by its readers
    # Per op: its string, whether its nodes may have bodies, and where to list them.
    kinds: dict[str, tuple[str, bool, Callable[[Node], None]]] = {}
    shared: Callable[[str, str], str] = made.get
    early: list[str] = []  # tensors read before they are produced: only outer ones if the graph is sorted
    for slot, proto in enumerate(scope.proto.node):
        op, domain = proto.op_type, proto.domain
        op = qualified_name(domain, op) if domain else op
        read = proto.input[:]  # a slice is faster than a loop, which queries protobuf for each name
        if len(read) == 2:
            op = FOR_TWO.get(op, op)
        if op not in kinds:
            kinds[op] = (op, _may_hold_bodies(op), by_op[op].append)
        op, may_hold_bodies, list_it = kinds[op]
        inputs = tuple(map(shared, read, read))
        outputs = tuple(proto.output[:])
        node = Node(op, inputs, outputs, scope=scope, slot=slot)
        nodes.append(node)
        list_it(node)
        for name in inputs:
            if name in consumers:
                consumers[name].append(node)
            else:
                consumers[name] = [node]
                if name not in producers:
                    early.append(name)
        for name in outputs:
            if name:
                if name in producers:
                    _refuse_twice(name, producers[name], node)
                producers[name] = node
                made[name] = name
        if may_hold_bodies and proto.attribute:
            bodies.extend(_bodies(node, proto))
    for op in all_declared():
        for node in by_op.get(op, ()):
            require_declared_inputs(op, node.inputs, node.label)
    consumers.pop("", None)
    scope._from_outside = [name for name in early if name not in producers]
    scope._is_unsorted = len(scope._from_outside) < len(early)
    return bodies


def _may_hold_bodies(op: str) -> bool:
    """Whether the schema of an op has a graph attribute; an unknown op may have any."""
    known = schema(*split_op(op), None)
    kinds = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
    return known is None or any(spec.type in kinds for spec in known.attributes.values())


def _bodies(node: Node, proto: onnx.NodeProto) -> Iterator[tuple[Node, int, int, int, onnx.GraphProto]]:
    for position, attribute in enumerate(proto.attribute):
        if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
            yield node, position, 0, 6, attribute.g
        for place, graph in enumerate(attribute.graphs):
            yield node, position, place, 11, graph


def _record_captures(scope: Scope) -> None:
    """Move the uses of outer tensors from a body to the scope that produces them."""
    for name in [name for name in scope.consumers if not scope.defines(name)]:
        home = scope.defining_scope(name)
        if home is not None:
            home._consumers.setdefault(name, []).extend(scope._consumers.pop(name))


def _protect_training_tensors(scope: Scope, proto: onnx.ModelProto) -> None:
    for info in proto.training_info:
        for binding in (*info.initialization_binding, *info.update_binding):
            for name in (binding.key, binding.value):
                scope._protected[name] = "a training binding uses it"
        for node in (*info.algorithm.node, *info.initialization.node):
            for name in node.input:
                scope._protected.setdefault(name, "the training graph uses it")


def _refuse_twice(name: str, first: Node, second: Node) -> None:
    raise GraphError(
        f"Tensor {name!r} is produced twice, by {first.label!r} and by {second.label!r}. "
        f"ONNX requires unique names. {_FIX}"
    )


def _refuse_cycle(scope: Scope) -> None:
    """Refuse a cycle: a model is opened with all other nodes in topological order."""
    makers = scope.producers
    needs = {node: [makers[name] for name in names_read(node.proto) if name in makers] for node in scope.nodes}
    around = find_cycle(needs)
    if around:
        raise GraphError(f"The graph has a cycle through node {around[0].label!r}. {_FIX}")
