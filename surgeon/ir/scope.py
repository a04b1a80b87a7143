"""Nodes and scopes as the matcher sees them.

A scope is the main graph, the body of an If, Loop or Scan at any depth, or a local function.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Self

import onnx
from onnx import AttributeProto

from surgeon.file.model import Address
from surgeon.file.protobuf.node_encoder import kind_record, node_record
from surgeon.file.protobuf.node_order import FUNCTION_NODE, GRAPH_NODE
from surgeon.file.tensors.decoding import Array

DEFAULT_DOMAINS = ("", "ai.onnx")


class Node:
    """A node as the matcher sees it.

    op: "Erf" in ai.onnx, "com.microsoft::Gelu" elsewhere.  slot: position in the scope's original node order; a new
    node has the slot of the node that it replaces.  source_slot: position in the source file, -1 for a new node.
    encoded: the serialised new node.  Protobuf objects are created on demand, since they are large.
    """

    __slots__ = ("alive", "encoded", "inputs", "op", "outputs", "scope", "slot", "source_slot")

    def __init__(
        self,
        op: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        scope: "Scope",
        slot: int,
        encoded: bytes | None = None,
    ) -> None:
        self.op, self.inputs, self.outputs = op, inputs, outputs
        self.scope, self.slot, self.encoded = scope, slot, encoded
        self.source_slot = slot if encoded is None else -1
        self.alive = True

    @property
    def proto(self) -> onnx.NodeProto:
        """The node of the skeleton, or a copy of a new node."""
        if self.encoded is not None:
            made: onnx.NodeProto = onnx.NodeProto.FromString(self.encoded)
            return made
        found: onnx.NodeProto = self.scope.protos[self.source_slot]
        return found

    @property
    def original(self) -> bool:
        """Whether the node is in the source file."""
        return self.encoded is None

    @property
    def moved(self) -> bool:
        """Whether the node is in the source file, at another position."""
        return self.encoded is None and self.slot != self.source_slot

    @property
    def name(self) -> str:
        """The node's name in the file; may be empty."""
        return str(self.proto.name)

    @property
    def label(self) -> str:
        """The node's name in messages."""
        return str(self.proto.name) or next((name for name in self.outputs if name), self.op)

    def attribute(self, name: str) -> AttributeProto | None:
        """The attribute as stored; None if it is absent."""
        items: list[AttributeProto] = list(self.proto.attribute)
        return next((item for item in items if item.name == name), None)

    def __repr__(self) -> str:
        return f"<{self.op} {self.label}>"


class Scope:
    """One graph, body or function: its nodes in file order, and the producer and consumers of each tensor.

    It has many attributes, since each table exists twice: `_x`, which only `mutations` and `index_patch` change, and
    `x`, its read-only view.
    """

    def __init__(
        self,
        proto: onnx.GraphProto | onnx.FunctionProto,
        address: Address,
        versions: dict[str, int],
        parent: "Scope | None" = None,
        owner: Node | None = None,
        label: str = "",
    ) -> None:
        self.proto, self.address = proto, address
        self.parent, self.owner, self.label = parent, owner, label
        self.is_function = isinstance(proto, onnx.FunctionProto)
        self.protos = proto.node
        self._versions, self._nodes, self._bodies = versions, list[Node](), list[Scope]()
        self._producers, self._consumers = dict[str, Node](), dict[str, list[Node]]()
        self._by_op: dict[str, list[Node]] = defaultdict(list)
        self._protected, self._inputs = dict[str, str](), set[str]()
        self._initializers, self._sparse = dict[str, onnx.TensorProto](), dict[str, onnx.SparseTensorProto]()
        self._is_unsorted = False
        self._from_outside: list[str] = []
        self._removed_counts: dict[str, int] = {}  # by op, how many of the first nodes are known to be removed
        # Changes by edits.
        self._added: dict[int, list[Node]] = {}
        self._touched, self._redirected = set[int](), set[Node]()
        self._live: Sequence[Node] | None = None  # cache of live_nodes
        self._retired: dict[str, int] = {}
        self._removed_tensors: set[str] = set()  # removed tensors
        self._new_initializers: list[onnx.TensorProto] = []
        self._dropped_initializers: set[str] = set()
        self._shared: dict[str, str] = {}  # initializer -> one with equal bytes that its readers read instead
        self._equal: dict[str, str] = {}  # tensor -> an equal one that its readers read instead
        self._fixed: dict[str, Array] = {}  # tensor -> its computed value, also of removed ones
        self._is_dropped = False
        if isinstance(proto, onnx.FunctionProto):
            self._inputs.update(proto.input)
        else:
            self._inputs.update([value.name for value in proto.input])
            self._initializers.update([(tensor.name, tensor) for tensor in proto.initializer])
            self._sparse.update([(tensor.values.name, tensor) for tensor in proto.sparse_initializer])
        # Read-only views of these tables.
        self.versions: Mapping[str, int] = self._versions
        self.nodes: Sequence[Node] = self._nodes
        self.bodies: Sequence[Scope] = self._bodies
        self.producers: Mapping[str, Node] = self._producers
        self.consumers: Mapping[str, Sequence[Node]] = self._consumers
        self.by_op: Mapping[str, Sequence[Node]] = self._by_op
        self.protected: Mapping[str, str] = self._protected
        self.inputs: AbstractSet[str] = self._inputs
        self.initializers: Mapping[str, onnx.TensorProto] = self._initializers
        self.sparse: Mapping[str, onnx.SparseTensorProto] = self._sparse
        self.redirected: AbstractSet[Node] = self._redirected
        self.removed_names: AbstractSet[str] = self._removed_tensors
        self.equal_tensors: Mapping[str, str] = self._equal
        self.fixed: Mapping[str, Array] = self._fixed

    @classmethod
    def beside(cls, scope: "Scope", parent: "Scope | None") -> Self:
        """An empty scope for the same graph, with shared imports."""
        return cls(scope.proto, scope.address, scope._versions, parent=parent, owner=scope.owner, label=scope.label)

    @property
    def is_dropped(self) -> bool:
        """Whether this is a function that was removed for lack of calls."""
        return self._is_dropped

    @cached_property
    def names(self) -> list[str]:
        """The names of the source's nodes, read when a rewrite needs them."""
        return [proto.name for proto in self.protos]

    def forget_names(self) -> None:
        """Drop the cache of `names`."""
        self.__dict__.pop("names", None)

    @cached_property
    def stated(self) -> list[str]:
        """The names of the tensors in value_info, in its order."""
        return [value.name for value in self.proto.value_info]

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs, in order."""
        return _port_names(self.proto.input)

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs, in order."""
        return _port_names(self.proto.output)

    @property
    def attribute(self) -> str:
        """For a body, the name of its owner's attribute."""
        return "" if self.owner is None else str(self.owner.proto.attribute[self.address[-2][1]].name)

    @property
    def opset(self) -> int | None:
        """The imported version of ai.onnx."""
        return self.versions.get("")

    @property
    def function(self) -> "Scope | None":
        """The function that contains this scope; None outside of functions."""
        scope: Scope | None = self
        while scope is not None and not scope.is_function:
            scope = scope.parent
        return scope

    def defines(self, name: str) -> bool:
        """Whether the tensor is defined here: as an output of a node, an input or an initializer."""
        return name in self.producers or name in self.initializers or name in self.inputs or name in self.sparse

    def defining_scope(self, name: str) -> "Scope | None":
        """The innermost scope, from here outwards, that defines the tensor."""
        scope: Scope | None = self
        while scope is not None and not scope.defines(name):
            scope = scope.parent
        return scope

    def home_of_read(self, name: str) -> "Scope | None":
        """As `defining_scope`, for a tensor that a node here reads: the defining scope records its consumers."""
        return self if name in self.consumers else self.defining_scope(name)

    def readers(self, name: str) -> Sequence[Node]:
        """The nodes that read a tensor of this scope, in nested bodies too; once per input."""
        found = self.consumers.get(name)
        if not found or name not in self._retired:
            return found or ()
        return [node for node in found if node.alive]

    def uses(self, name: str) -> Iterator[tuple[Node, int]]:
        """The uses of a tensor of this scope: a node that reads it, in nested bodies too, and the place of the input.
        """
        for node in dict.fromkeys(self.readers(name)):
            yield from ((node, slot) for slot, read in enumerate(node.inputs) if read == name)

    def is_read(self, name: str) -> bool:
        """Whether any node reads a tensor of this scope; fast even for a constant with thousands of readers."""
        found = self.consumers.get(name)
        return found is not None and len(found) > self._retired.get(name, 0)

    def is_needed(self, name: str) -> bool:
        """Whether a tensor of this scope is read by nodes, or must stay for another reason, such as an output."""
        return self.is_read(name) or name in self.protected

    def needs(self, node: "Node") -> bool:
        """Whether an output of a node of this scope is needed."""
        for name in node.outputs:  # noqa: SIM110 - a generator is slower
            if name and (self.is_read(name) or name in self._protected):
                return True
        return False

    def dead_nodes(self) -> list["Node"]:
        """The live nodes without needed outputs, in order; whole tables are compared at once."""
        producers = self._producers
        loose = (producers.keys() - self._consumers.keys()) | (producers.keys() & self._retired.keys())
        suspects = {producers[name] for name in loose if not self.is_needed(name)}
        found = [node for node in self.live_nodes() if node in suspects or not any(node.outputs)]
        return [node for node in found if not self.needs(node)]

    @property
    def node_field(self) -> int:
        """The number of the field that holds the nodes."""
        return FUNCTION_NODE if self.is_function else GRAPH_NODE

    def stored(self, name: str) -> onnx.TensorProto | None:
        """The initializer of a name in this scope or an outer one, dropped ones included; None if there is none."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.all_initializers:
                return scope.all_initializers[name]
            scope = scope.parent
        return None

    @cached_property
    def all_initializers(self) -> dict[str, onnx.TensorProto]:
        """The initializers of the source and those that rewrites added, by name; read after all rewrites."""
        proto = self.proto
        found = [] if isinstance(proto, onnx.FunctionProto) else list(proto.initializer)
        return {tensor.name: tensor for tensor in (*found, *self._new_initializers)}

    def stand_in(self, name: str) -> Node:
        """A node that represents an initializer if a node is required; it is not in any file."""
        record = node_record(name, (), (name,)) + kind_record("Initializer", "", ())
        return Node("Initializer", (), (name,), scope=self, slot=0, encoded=record)

    @property
    def is_gone(self) -> bool:
        """Whether the owner of this body or of an outer one was removed, or the function dropped."""
        outer: Scope | None = self
        while outer is not None:
            if outer._is_dropped or (outer.owner is not None and not outer.owner.alive):
                return True
            outer = outer.parent
        return False

    def count_nodes(self) -> int:
        """The number of live nodes."""
        gone = [slot for slot in self._touched if not self.nodes[slot].alive or self.nodes[slot].moved]
        return len(self.nodes) - len(gone) + sum(map(len, self._added.values()))

    def count_constants(self) -> int:
        """The number of live Constant nodes."""
        return sum(node.alive for node in self.by_op.get("Constant", ()))

    def nodes_of(self, ops: Iterable[str]) -> list[Node]:
        """The nodes of these ops, op by op."""
        return [node for op in sorted(ops) for node in self.by_op.get(op, ())]

    def has(self, op: str) -> bool:
        """Whether the scope has a live node of an op."""
        nodes, gone = self.by_op.get(op, ()), self._removed_counts.get(op, 0)
        while gone < len(nodes) and not nodes[gone].alive:
            gone += 1
        self._removed_counts[op] = gone
        return gone < len(nodes)

    def has_any(self, ops: Iterable[str]) -> bool:
        """The same for any of several ops."""
        return any(map(self.has, ops))

    def live_nodes(self) -> Sequence[Node]:
        """All live nodes, in order; later edits do not change the returned list."""
        if self._live is None:
            self._live = list(self._walked()) if self._touched else self.nodes
        return self._live

    def _walked(self) -> Iterator[Node]:
        for slot, node in enumerate(self.nodes):
            if node.alive and node.slot == slot:
                yield node
            if slot in self._touched:
                yield from self._added.get(slot, ())

    def new_nodes(self) -> Iterator[Node]:
        """Nodes that are not from the file, unordered; without those in bodies of new nodes, which have no scopes."""
        return (node for nodes in self._added.values() for node in nodes if not node.original)


def _port_names(ports: Iterable[str | onnx.ValueInfoProto]) -> list[str]:
    return [port if isinstance(port, str) else port.name for port in ports]


def qualified_name(domain: str, op: str) -> str:
    """The key of an op: its bare name in ai.onnx, "domain::Name" elsewhere."""
    return op if domain in DEFAULT_DOMAINS else f"{domain}::{op}"


def split_op(op: str) -> tuple[str, str]:
    """(domain, name) of a qualified op."""
    domain, _, name = op.rpartition("::")
    return domain, name
