"""Diagrams of graphs: boxes for nodes, pills for inputs and outputs, and edges for tensors.

A constant is shown as a row in each node that reads it, with the name of the input from the schema.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import AttributeProto

from surgeon.errors import ModelFileError
from surgeon.file.tensors.decoding import decode_tensor
from surgeon.ir.index import Index
from surgeon.ir.scope import DEFAULT_DOMAINS, Node, Scope, split_op
from surgeon.ops.schemas import knows_domain, schema
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traits.trait_lookup import CAST_OPS
from surgeon.rules.matching.match_state import plain
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.tensor_types import PartialShape, size_text
from surgeon.text import format_count

LONGEST_ROW, LONGEST_LIST, SHOWN_ELEMENTS = 40, 8, 4


@dataclass(frozen=True, slots=True)
class Box:
    """One node, input or output."""

    kind: str
    """Nodes: onnx, runtime (ONNX Runtime), function (local), foreign.  A pill: input, output, outside or constant."""
    title: str
    """The op type, or the name of a tensor."""
    domain: str = ""
    """The domain; empty for ai.onnx."""
    rows: tuple[str, ...] = ()
    """Constants and attributes, one per line."""
    hint: str = ""
    """The name of the node, as a tooltip."""
    is_marked: bool = False
    """Whether the box is highlighted."""


@dataclass(frozen=True, slots=True)
class DiagramEdge:
    """A tensor between two boxes."""

    source: int
    """The index of the producer's box."""
    target: int
    """The index of the consumer's box."""
    tensor: str
    """The name of the tensor."""
    label: str
    """The dtype and shape; may be empty."""


@dataclass(slots=True)
class Diagram:
    """A diagram of one graph."""

    title: str = ""
    """The title; may be empty."""
    boxes: list[Box] = field(default_factory=list)
    """The boxes."""
    edges: list[DiagramEdge] = field(default_factory=list)
    """The edges."""

    @property
    def nodes(self) -> int:
        """The number of boxes that are nodes."""
        return sum(box.kind in ("onnx", "runtime", "function", "foreign") for box in self.boxes)


class DiagramBuilder:
    """Converts nodes of one scope to boxes and edges.  marked: nodes to highlight."""

    def __init__(self, index: Index, scope: Scope, marked: Collection[Node] = ()) -> None:
        self.index, self.scope, self.marked = index, scope, marked
        self._removed_constants: dict[str, onnx.TensorProto] = {}  # constants that a rewrite has removed
        self._functions = {item.label.removeprefix("function "): list(item.proto.input) for item in index.functions}

    def build(self, nodes: Sequence[Node], outputs: Sequence[str], title: str) -> Diagram:
        """The diagram of some nodes.  outputs: the tensors that leave it, in order."""
        found = Diagram(title)
        self._find_removed_constants(nodes)
        nodes = [node for node in nodes if node.op != "Constant" or set(node.outputs) & set(outputs)]
        made: dict[str, int] = {}
        for node in nodes:
            made.update({name: len(found.boxes) for name in node.outputs if name})
            found.boxes.append(self._box(node))
        sources: dict[str, int] = {}
        for target, node in enumerate(nodes):
            for name in dict.fromkeys(self._read_tensors(node)):
                if name in made:
                    found.edges.append(DiagramEdge(made[name], target, name, self.type_text(name)))
                elif not self._is_constant(name):
                    if name not in sources:
                        sources[name] = len(found.boxes)
                        found.boxes.append(self._pill("input" if name in self.scope.inputs else "outside", name))
                    found.edges.append(DiagramEdge(sources[name], target, name, ""))
        for name in dict.fromkeys(outputs):
            if name not in made and name not in sources:
                sources[name] = len(found.boxes)
                found.boxes.append(self._pill("constant" if self._is_constant(name) else "input", name))
            found.edges.append(DiagramEdge(made.get(name, sources.get(name, 0)), len(found.boxes), name, ""))
            found.boxes.append(self._pill("output", name))
        return found

    def type_text(self, name: str) -> str:
        """The dtype and shape of a tensor as text: float32[batch,64]; empty if both are unknown."""
        dtype, shape = shapes_of(self.index).facts(self.scope, name)
        return type_text(dtype or 0, shape)

    def _find_removed_constants(self, nodes: Sequence[Node]) -> None:
        """Find the constants that these nodes read and that the model does not have any more."""
        read = {name for node in nodes for name in node.inputs if name and self.scope.defining_scope(name) is None}
        if isinstance(self.scope.proto, onnx.GraphProto) and read:
            initializers = self.scope.proto.initializer
            self._removed_constants.update({item.name: item for item in initializers if item.name in read})
        for node in nodes:
            value = node.attribute("value") if node.op == "Constant" else None
            if value is not None and node.outputs[0] in read:
                self._removed_constants[node.outputs[0]] = value.t

    def _read_tensors(self, node: Node) -> Iterator[str]:
        """The tensors that a node reads, including those that its bodies capture."""
        yield from filter(None, node.inputs)
        for body in self.scope.bodies:
            if body.owner is node:
                yield from self._captured(body)

    def _captured(self, body: Scope) -> Iterator[str]:
        for inner in body.nodes:
            yield from (name for name in inner.inputs if name and not body.defines(name) and self.scope.defines(name))
        for further in body.bodies:
            yield from self._captured(further)

    def _is_constant(self, name: str) -> bool:
        home = self.scope.defining_scope(name)
        if home is None:
            return name in self._removed_constants
        node = home.producers.get(name)
        is_overridable = name in home.inputs
        return (name in home.initializers and not is_overridable) or (node is not None and node.op == "Constant")

    def _pill(self, kind: str, name: str) -> Box:
        text = self.type_text(name)
        return Box(kind, shortened(name), rows=(text,) if text else (), hint=name)

    def _box(self, node: Node) -> Box:
        domain, op = split_op(node.op)
        rows = [row for place, name in enumerate(node.inputs) for row in self._constant_rows(node, place, name)]
        rows += [shortened(f"{item.name}={attribute_text(op, item)}") for item in node.proto.attribute]
        domain = "" if domain in DEFAULT_DOMAINS else domain
        return Box(
            self._kind(node.op, domain), op, domain, rows=tuple(rows), hint=node.name, is_marked=node in self.marked
        )

    def _kind(self, op: str, domain: str) -> str:
        if op in self._functions:
            return "function"
        if domain in DEFAULT_DOMAINS:
            return "onnx"
        return "runtime" if knows_domain(domain) else "foreign"

    def _constant_rows(self, node: Node, place: int, name: str) -> Iterator[str]:
        if not name or not self._is_constant(name):
            return
        domain, op = split_op(node.op)
        known = schema(domain, op, self.scope.versions.get(domain))
        formals = self._functions.get(node.op) or [item.name for item in (known.inputs if known is not None else ())]
        formal = formals[place] if place < len(formals) else f"input {place}"
        if name in self._removed_constants:
            yield shortened(f"{formal}: {tensor_text(self._removed_constants[name])}")
            return
        shape = shapes_of(self.index).shape(self.scope, name)
        if shape is not None and np.prod([size for size in shape if isinstance(size, int)]) <= SHOWN_ELEMENTS:
            value = self.index.constants.get(self.scope, name)
            if value is not None:
                yield shortened(f"{formal}: {array_text(value.array)}")
                return
        yield shortened(f"{formal}: {self.type_text(name)}")


def type_text(dtype: int, shape: PartialShape | None) -> str:
    """A dtype and shape as text: float32[batch,64]; empty if both are unknown."""
    name = dtype_name(dtype) if dtype else ""
    if shape is None:
        return name
    return f"{name or '?'}[{','.join(map(size_text, shape))}]"


def attribute_text(op: str, item: AttributeProto) -> str:
    """The value of an attribute as a short text."""
    if item.ref_attr_name:
        return f"@{item.ref_attr_name}"
    if op in CAST_OPS and item.name == "to":
        return type_text(item.i, None)
    if item.type == AttributeProto.GRAPH:
        return format_count(len(item.g.node), 'node')
    if item.type == AttributeProto.TENSOR:
        return tensor_text(item.t)
    if item.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
        numbers = [str(np.float32(number)) for number in (item.floats or [item.f])]
        return _list_text(numbers) if item.type == AttributeProto.FLOATS else numbers[0]
    if item.type in (AttributeProto.INT, AttributeProto.STRING):
        return repr(plain(item))
    if item.type in (AttributeProto.INTS, AttributeProto.STRINGS):
        return _list_text([repr(element) for element in plain(item)])
    return str(AttributeProto.AttributeType.Name(item.type)).lower()


def tensor_text(tensor: onnx.TensorProto) -> str:
    """A stored tensor: by value if it is small and in the file, else by dtype and shape."""
    if np.prod(tensor.dims) <= SHOWN_ELEMENTS and not tensor.external_data:
        with suppress(ModelFileError):
            return array_text(decode_tensor(tensor))
    return type_text(tensor.data_type, tensor.dims)


def array_text(array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> str:
    """A small constant by value: 0.5, [1, 64]."""
    items = [str(item) for item in array.reshape(-1)]
    return _list_text(items) if array.ndim else items[0]


def shortened(text: str) -> str:
    """A text that fits into a box."""
    return text if len(text) <= LONGEST_ROW else text[: LONGEST_ROW - 1] + "…"


def _list_text(items: Sequence[str]) -> str:
    more = ["…"] if len(items) > LONGEST_LIST else []
    return f"[{', '.join([*items[:LONGEST_LIST], *more])}]"
