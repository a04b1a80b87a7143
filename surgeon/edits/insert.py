"""Replaces the nodes between two sets of tensors with one custom or plugin node, or inserts a node at a tensor."""

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from onnx import GraphProto, NodeProto, ValueInfoProto, helper

from surgeon.edits.attribute_text import format_attribute, parse_attribute, set_attributes
from surgeon.errors import UsageError
from surgeon.ir.scope import split_op
from surgeon.ops.plugins.builtin_plugins import check_notes, names_plugin
from surgeon.ops.schemas import check_node, schema
from surgeon.ops.traversal import function_key, imports_of, names_read
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.edit import Edit, parse_names
from surgeon.pipeline.editing.prune import delete_slots, filter_repeated, prune_functions
from surgeon.pipeline.editing.subgraph import Subgraph, nodes_reachable_from, rename_outputs_of, subgraph_between
from surgeon.pipeline.editing.tensor_renaming import rename_in_node
from surgeon.printed_commands import command
from surgeon.proof.model.exposed_outputs import required_nodes
from surgeon.text import format_count

UNTOLD = f"The inserted node may change the outputs on purpose. To see by how much: {command('compare', 'IN', 'OUT')}"


@dataclass(frozen=True, slots=True)
class Insert(Edit):
    """Replace everything between two cuts with one node, for example a plugin or a custom op.

    The node reads the tensors of the first cut and produces those of the second, which keep their names.  Nodes between
    them stay if other nodes read them.  The check runs the op's implementation (`custom_ops`) and compares the result
    with the original.  Without an implementation the result is unproved.

    If the node reads the tensors that it produces, it replaces nothing: it is inserted between the nodes that produce
    them and the nodes that read them.  The result is unproved, because the outputs may differ on purpose.

    Raises:
        UsageError: a tensor does not exist, the tensors of `froms` do not suffice, or one of them is computed from
            one of `tos`.

    Examples:
        >>> import surgeon
        >>> gelu = surgeon.edits.Insert(("val_114",), ("gelu",), "com.microsoft::Gelu")
        >>> surgeon.edits.Insert.parse("a,b=c trt.plugins::Mine alpha=0.5").attributes
        {'alpha': 0.5}
    """

    froms: tuple[str, ...]
    """Tensors that the node reads, in this order; weights may be among them."""
    tos: tuple[str, ...]
    """Tensors that it produces, in this order."""
    op: str
    """Its operator, as domain::Name, or Name of ai.onnx."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the node by name: numbers, strings, and lists of these."""
    name: str = ""
    """The name of the node; by default derived from its operator."""
    flag = "insert"
    metavar = "'FROM,...=TO,... OP [NAME=VALUE ...]'"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the cuts, the operator and its attributes, with spaces between them."""
        try:
            cuts, op, *rest = shlex.split(text)
        except ValueError:
            raise UsageError(f"{text!r} is not of the form {cls.metavar}.") from None
        left, sign, right = cuts.rpartition("=")
        if not sign:
            raise UsageError(f"{text!r} is not of the form {cls.metavar}.")
        return cls(
            parse_names(left, cls.metavar),
            parse_names(right, cls.metavar),
            op,
            dict(parse_attribute(item) for item in rest),
        )

    @property
    def spelling(self) -> str:
        """The cuts, the operator and its attributes."""
        cuts = f"{','.join(self.froms)}={','.join(self.tos)}"
        return shlex.join([cuts, self.op, *(format_attribute(name, value) for name, value in self.attributes.items())])

    def apply(self, draft: ModelDraft) -> Iterable[str]:
        """Insert it."""
        if not self.froms or not self.tos or not self.op:
            raise UsageError("The new node needs input tensors, output tensors and an operator. Give all three.")
        is_added = {*self.tos} <= {*self.froms}
        region = None if is_added else subgraph_between(draft, self.froms, self.tos, weights=True)
        for name in (*self.froms, *self.tos) if is_added else ():
            draft.require_tensor(name)
        self._require_no_cycle(draft)
        domain, op = split_op(self.op)
        imports = imports_of(draft.skeleton.opset_import)
        known = schema(domain, op, imports.get(domain))
        node = NodeProto(op_type=op, domain=domain, input=self.froms, output=self.tos)
        node.name = self.name or f"{op}_{self.tos[0]}"
        set_attributes(node, known, self.attributes)
        wrong = check_node(node, imports.get(domain, 1), lambda name: draft.shapes.facts(draft.index.main, name).dtype)
        if wrong and not names_plugin(domain, op):  # a plugin may be of another release or the user's own
            raise UsageError(f"{self.op} cannot be inserted: {wrong[0]}")
        stated = [] if known is not None else self._stated(draft, is_added=is_added)
        if domain not in imports and all(function_key(item)[:2] != (domain, op) for item in draft.skeleton.functions):
            draft.skeleton.opset_import.append(helper.make_opsetid(domain, known.since_version if known else 1))
        said = [*(self._add(draft, node, stated) if region is None else self._replace(draft, node, region))]
        draft.graph.value_info.extend(stated)
        draft.claim.by_structure = False
        draft.changed()
        return (*said, *check_notes([op] if not domain else []), *(complaint.rstrip(".") for complaint in wrong))

    def _replace(self, draft: ModelDraft, node: NodeProto, region: Subgraph) -> Iterable[str]:
        """Put the node in the place of others."""
        graph = draft.graph
        idle = _unused_nodes(graph, region)
        for place in region.nodes - idle:
            rename_outputs_of(draft, graph.node[place], region.tos)
        _insert_node(graph, node, min(region.nodes), idle)
        _remove_unused(draft, region)
        yield f"{self.op} replaces {format_count(len(idle), 'node')}, from {_list(self.froms)} to {_list(self.tos)}"
        left = len(region.nodes) - len(idle)
        if left:
            verb = "stays" if left == 1 else "stay"
            yield f"{format_count(left, 'node')} in between {verb}, because other nodes read the outputs"

    def _add(self, draft: ModelDraft, node: NodeProto, stated: Iterable[ValueInfoProto]) -> Iterable[str]:
        """Put the node between the producers of tensors and the nodes that read them.

        The node's output takes the name of the tensor of a producer, but not of an input or an initializer.
        """
        graph, inner = draft.graph, {name for other in draft.graph.node for name in other.output}
        ends = {value.name for value in graph.output}
        behind: dict[str, str] = {}
        before: dict[str, str] = {}
        for name in dict.fromkeys(self.tos):
            if name not in inner and name in ends:
                raise UsageError(f"{name!r} is an input and an output of the model. Choose a tensor of a node.")
            (before if name in inner else behind)[name] = draft.fresh(f"{name}_{node.op_type}")
        for other in graph.node:
            for place, name in enumerate(other.output):
                other.output[place] = before.get(name, name)
            rename_in_node(other, behind)
        for value in graph.value_info:
            value.name = before.get(value.name, value.name)
        for value in stated:
            value.name = behind.get(value.name, value.name)
        draft.claim.tensors |= {new: draft.claim.original(old) for old, new in before.items()}
        node.input[:] = [before.get(name, name) for name in node.input]
        node.output[:] = [behind.get(name, name) for name in node.output]
        _insert_node(graph, node, 0, ())
        draft.claim.untold = UNTOLD
        yield f"{self.op} is inserted at {_list(self.tos)}"

    def _require_no_cycle(self, draft: ModelDraft) -> None:
        graph = draft.graph
        after = {name for place in nodes_reachable_from(graph, self.tos) for name in graph.node[place].output}
        circle = next((name for name in self.froms if name in after), None)
        if circle is not None:
            raise UsageError(
                f"{circle!r} is computed from {_list(self.tos)}, so one node between them would form a cycle. "
                "Choose other cuts."
            )

    def _stated(self, draft: ModelDraft, *, is_added: bool) -> list[Any]:
        """Inferred types of the outputs without a declaration: nothing infers them for a custom op.

        is_added: the declarations of inner tensors remain with their producers, which get other names.
        """
        declared = (draft.graph.output, () if is_added else draft.graph.value_info)
        known = {value.name for values in declared for value in values}
        facts = {name: draft.shapes.facts(draft.index.main, name) for name in self.tos if name not in known}
        return [draft.facts(name) for name, found in facts.items() if None not in found]


def _unused_nodes(graph: GraphProto, region: Subgraph) -> frozenset[int]:
    """Indices of the nodes that are unused once another node produces the tensors of the second cut."""
    others = [node for place, node in enumerate(graph.node) if place not in region.nodes]
    read = {name for node in others for name in names_read(node)} | {value.name for value in graph.output}
    return region.nodes - required_nodes(graph, read.union(region.froms), region.tos)[0]


def _insert_node(graph: GraphProto, node: NodeProto, first: int, idle: Collection[int]) -> None:
    """Insert a node after the producers of its inputs, move its consumers after it, and remove unused nodes.

    first: the smallest index that it may have.
    """
    reads = set(node.input)
    makers = [place for place, other in enumerate(graph.node) if not reads.isdisjoint(other.output)]
    at = max(max(makers, default=-1) + 1, first)
    early = [place for place in nodes_reachable_from(graph, node.output) if place < at]
    moved = [NodeProto.FromString(graph.node[place].SerializeToString()) for place in early if place not in idle]
    for number, other in enumerate((node, *moved)):
        graph.node.insert(at + number, other)
    delete_slots(graph.node, {place if place < at else place + 1 + len(moved) for place in {*early, *idle}})


def _remove_unused(draft: ModelDraft, region: Subgraph) -> None:
    """Remove initializers, value_info, annotations and functions that only removed nodes used."""
    graph = draft.graph
    read = {name for node in graph.node for name in names_read(node)} | {value.name for value in graph.output}
    read.update(value.name for value in graph.input)
    gone = region.used - read
    filter_repeated(graph.initializer, lambda _, tensor: tensor.name not in gone)
    filter_repeated(graph.sparse_initializer, lambda _, tensor: tensor.values.name not in gone)
    made = {name for node in graph.node for name in node.output}
    lost = gone - made
    filter_repeated(graph.value_info, lambda _, value: value.name not in lost)
    filter_repeated(graph.quantization_annotation, lambda _, note: note.tensor_name not in lost)
    prune_functions(draft)


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
