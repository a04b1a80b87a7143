"""Builds the nodes that one step inserts: names, serialised records, and metadata of the replaced nodes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import onnx
from onnx import AttributeProto, GraphProto, NodeProto

from surgeon.file.protobuf.node_encoder import FROM, RULE, doc_record, kind_record, metadata_record, node_record
from surgeon.ir.mutations import pin
from surgeon.ir.scope import Node, Scope
from surgeon.ops.traversal import attribute_graphs
from surgeon.rules.replacing.replacement import ReplacementConstant, ReplacementNode, TensorRef

NO_NAMES: Mapping[TensorRef, str] = {}


@dataclass(slots=True)
class NodeBuilder:
    """Builds the nodes of one rewrite step."""

    fresh: Callable[[str], str]
    """Returns an unused name similar to the given one."""
    scope: Scope
    """The scope that gets the nodes."""
    root: Node
    """The node that they replace."""
    label: str
    """Name of the root, from which new names are derived."""
    slot: int
    """Slot of the new nodes."""
    provenance: bytes
    """Serialised doc string and metadata of a NodeProto, appended to each record."""
    name: str = ""
    """Name of the only new node if it has the op of the root, whose name it keeps; else ""."""

    def stem(self, op: str) -> str:
        """A readable name derived from the root: "/layer.3/act/Mul_1" -> "/layer.3/act/Gelu"."""
        folder, slash, leaf = self.label.rpartition("/")
        if slash:
            return f"{folder}/{op}"
        old = re.escape(self.root.op.rpartition("::")[2])
        replaced = re.sub(rf"(?<![a-zA-Z]){old}(?![a-zA-Z])", op, leaf, count=1, flags=re.IGNORECASE)
        return replaced if replaced != leaf else f"{leaf}_{op}"

    def tensor(self, op: str, place: int = 0) -> str:
        """An unused name for an output of a node."""
        return self.fresh(f"{self.stem(op)}_output_{place}")

    def node(self, made: ReplacementNode, names: dict[TensorRef, str]) -> Node:
        """A node with named tensors; not yet part of the scope."""
        inputs = tuple([names[ref] for ref in made.inputs])
        outputs = tuple([names[ref] for ref in made.makes])
        return self.named(made, inputs, outputs, names)

    def named(
        self,
        made: ReplacementNode,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        names: Mapping[TensorRef, str] = NO_NAMES,
    ) -> Node:
        """The same with the names of its inputs and outputs.  names: of tensors that its bodies read."""
        name = self.name if self.name and made.qualified == self.root.op else self.fresh(self.stem(made.op))
        kind = made.kind
        if made.holds_graphs:
            free = {inner: names[ref] for inner, ref in made.free}
            for read in free.values():  # since the index has no scopes for these bodies
                pin(self.scope, read, f"the body of {name!r} reads it")
            attributes = [with_renamed_bodies(item, free, self.fresh).SerializeToString() for item in made.attributes]
            kind = kind_record(made.op, made.domain, attributes)
        record = node_record(name, inputs, outputs) + kind + self.provenance
        return Node(made.qualified, inputs, outputs, scope=self.scope, slot=self.slot, encoded=record)


def with_renamed_bodies(item: AttributeProto, free: dict[str, str], fresh: Callable[[str], str]) -> AttributeProto:
    """A copy whose graphs read `free` from outside, and whose inner tensors all have new names."""
    made = AttributeProto()
    made.CopyFrom(item)
    for graph in attribute_graphs(made):
        _rename(graph, free, fresh)
    return made


def _rename(graph: GraphProto, around: dict[str, str], fresh: Callable[[str], str]) -> None:
    names = dict(around)
    tensors = [*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)]
    own = [*(value.name for value in graph.input), *(tensor.name for tensor in tensors)]
    own += [name for node in graph.node for name in node.output if name]
    names.update((name, fresh(name)) for name in dict.fromkeys(own))
    for value in (*graph.input, *graph.output, *tensors):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for item in node.attribute:
            for inner in attribute_graphs(item):
                _rename(inner, names, fresh)


def constant_node(item: ReplacementConstant) -> ReplacementNode:
    return ReplacementNode(
        "", "Constant", (), outputs=(0,), attributes=(onnx.helper.make_attribute("value", item.proto("")),)
    )


def provenance(scope: Scope, gone: Sequence[Node], root: NodeProto, rule: str, had_rules: bool) -> bytes:
    """The metadata of new nodes: the root's own and its doc string, the names of replaced nodes, and the rule."""
    names = scope.names
    sources: list[str] = []
    for node in gone:
        if node.encoded is None and not had_rules:
            sources.append(names[node.source_slot] or node.label)
            continue
        proto = node.proto
        earlier = [item.value for item in proto.metadata_props if item.key == FROM]
        sources += earlier[0].split(", ") if earlier else [proto.name or node.label]
    parts = [doc_record(root.doc_string)]
    parts += [metadata_record(item.key, item.value) for item in root.metadata_props[:] if item.key not in (FROM, RULE)]
    parts += (metadata_record(FROM, ", ".join(dict.fromkeys(sources))), _rule_record(rule))
    return b"".join(parts)


@cache
def _rule_record(rule: str) -> bytes:
    return metadata_record(RULE, rule)
