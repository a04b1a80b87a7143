"""The nodes whose stored matrix can be rounded: products with a constant factor, and lookups in a table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import onnx

from surgeon.connected_components import reachable
from surgeon.ir.index import Index
from surgeon.ir.scope import Node, Scope
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.ops.traits.weight_ops import BIASED, COPY, FACTOR, LOOKUP, PRODUCTS, ROTARY, TRANSPOSE
from surgeon.precision.kept_nodes.selectors import NodeAddress, node_address
from surgeon.precision.weights.weight_rounding import BlockRounding, Part, RoundedPart

DTYPES = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
"""Dtypes for which ONNX Runtime's CPU provider has kernels of both ops."""


class WeightUse(NamedTuple):
    """A node that reads a matrix, perhaps through a Transpose."""

    node: Node
    """The node."""
    slot: int
    """The place of the matrix among its inputs."""
    flipped: bool
    """Whether it reads the matrix transposed."""


@dataclass(slots=True)
class QuantizableWeight:
    """A stored matrix and the nodes that read it."""

    home: Scope
    """The scope that defines it."""
    tensor: onnx.TensorProto
    """The matrix: an initializer, or the value of a Constant."""
    name: str
    """Name of the tensor in its scope."""
    transposed: bool = False
    """Whether the rows of its blocks are the stored rows."""
    uses: list[WeightUse] = field(default_factory=list)
    """The nodes to replace."""
    between: list[Node] = field(default_factory=list)
    """Transposes and Identities between them, and the Constant; they go."""
    kept: dict[NodeAddress, tuple[Node, str]] = field(default_factory=dict)
    """Nodes that could read integers but do not, with the reason."""

    @property
    def sizes(self) -> tuple[int, int]:
        """N and K of a product with it."""
        first, second = map(int, self.tensor.dims)
        return (first, second) if self.transposed else (second, first)

    def part(self, part: Part, rounding: BlockRounding) -> RoundedPart:
        """A part of it, rounded."""
        first, second = map(int, self.tensor.dims)
        return RoundedPart(part, rounding, self.tensor.data_type, dims=(first, second), transposed=self.transposed)


def quantizable_weights(
    index: Index, rounding: BlockRounding, asked: Mapping[NodeAddress, str] = {}
) -> Iterator[QuantizableWeight]:
    """The stored matrices that products and lookups read, with the uses to replace or the reasons against it.

    asked: nodes to keep, with a reason each.
    """
    for scope in index.scopes:
        if scope.function is not None:
            continue
        for name, tensor, maker in _matrices(scope):
            found = QuantizableWeight(scope, tensor, name, between=[maker] if maker is not None else [])
            others = [f"the graph ({scope.protected[name]})"] if name in scope.protected else []
            for use in _uses(scope, name, found, others):
                if use.node.op not in (*PRODUCTS, LOOKUP) or use.slot > (use.node.op in PRODUCTS):
                    others.append(f"{use.node.op} {use.node.label}")
                    continue
                if found.uses and found.transposed != (use.flipped != _flips(use.node)):
                    others.append(f"{use.node.op} {use.node.label}, transposed")
                found.transposed = use.flipped != _flips(use.node)
                reason = asked.get(node_address(use.node)) or _obstacle(index, found, use, rounding)
                if reason:
                    found.kept[node_address(use.node)] = use.node, reason
                else:
                    found.uses.append(use)
            others += [f"{node.op} {node.label}" for node, _ in found.kept.values()]
            if index.is_overridable(scope, name):
                others.append("callers, as an optional input of the model")
            if others and found.uses:
                reason = f"its weight {name!r} is also read by {others[0]}"
                found.kept |= {node_address(use.node): (use.node, reason) for use in found.uses}
                found.uses = []
            if found.uses or found.kept:
                yield found


def _matrices(scope: Scope) -> Iterator[tuple[str, onnx.TensorProto, Node | None]]:
    """The stored matrices of floats of a scope, with the Constant of those that have one."""
    constants = [(node, item.t) for node in scope.by_op.get("Constant", ()) for item in node.proto.attribute]
    stored: list[tuple[str, onnx.TensorProto, Node | None]] = [
        *((name, tensor, None) for name, tensor in scope.initializers.items()),
        *((node.outputs[0], tensor, node) for node, tensor in constants),
    ]
    for name, tensor, maker in stored:
        if tensor.data_type in DTYPES and len(tensor.dims) == 2 and min(tensor.dims) > 0:
            yield name, tensor, maker


def _uses(scope: Scope, name: str, weight: QuantizableWeight, others: list[str]) -> Iterator[WeightUse]:
    """The uses of a tensor, through Transposes; `others` gets graphs whose output it is."""
    waiting = [(name, False)]
    while waiting:
        read, flipped = waiting.pop()
        for node, slot in scope.uses(read):
            if node.scope is scope and (node.op == COPY or _is_transpose(node)):
                weight.between.append(node)
                waiting.append((node.outputs[0], flipped != (node.op == TRANSPOSE)))
                if node.outputs[0] in scope.protected:
                    others.append(f"the graph ({scope.protected[node.outputs[0]]})")
            else:
                yield WeightUse(node, slot, flipped)


def _is_transpose(node: Node) -> bool:
    perm = node.attribute("perm") if node.op == TRANSPOSE else None
    return node.op == TRANSPOSE and (perm is None or list(perm.ints) == [1, 0])


def _flips(node: Node) -> bool:
    """Whether a node itself reads its matrix so that the stored rows are summed: a Gather's, and transB."""
    return node.op == LOOKUP or _number(node, "transB") == 1


def _number(node: Node, name: str, default: float = 0) -> float:
    item = node.attribute(name)
    return default if item is None else item.f if item.type == onnx.AttributeProto.FLOAT else item.i


def _obstacle(index: Index, weight: QuantizableWeight, use: WeightUse, rounding: BlockRounding) -> str | None:
    """Why a node cannot read integers instead of a weight; None if it can."""
    node, (rows, columns) = use.node, weight.sizes
    if node.op == LOOKUP:
        if use.slot or use.flipped or _number(node, "axis") not in (0, -2):
            return "it does not look up rows of a stored table"
        if columns % rounding.block:
            return f"the table has {columns:,} columns, which is not a multiple of the block {rounding.block}"
        if factor := _factor_of_rows(index, node):
            return f"its rows are factors of {factor!r}, as those of a rotary table are"
    elif use.slot != 1:
        return "its weight is not the second factor"
    elif any(_number(node, name) for name in PRODUCTS[node.op]):
        return "it transposes the first factor"
    elif _number(node, "alpha", 1) != 1:
        return "it has a factor alpha"
    elif bias_of(node) and (_number(node, "beta", 1) != 1 or not _is_bias(index, node, rows)):
        return "its bias is not a stored vector"
    parts = [weight.part(part, rounding) for part in ("codes", *rounding.scale_parts)]
    if sum(part.changed_size(0) for part in parts) >= parts[0].source_size(0):
        return f"rounded, its {rows:,} by {columns:,} {dtype_name(weight.tensor.data_type)} would not be smaller"
    return None


def bias_of(node: Node) -> str:
    """The name of a Gemm's bias; empty if it has none."""
    return node.inputs[2] if node.op == BIASED and len(node.inputs) > 2 else ""


def _is_bias(index: Index, node: Node, size: int) -> bool:
    """Whether the bias of a Gemm is a stored vector of this size."""
    home = node.scope.defining_scope(node.inputs[2])
    return home is not None and index.constants.shape(home, node.inputs[2]) == (size,)


def _factor_of_rows(index: Index, node: Node) -> str:
    """A tensor that is multiplied by the rows that a Gather returns, and does not depend on them; empty if none is.

    The rows of an embedding are summed, normalised or scaled by constants.  Those of a rotary table are factors of
    activations, and cosines need more digits.
    """
    scope, start = node.scope, node.outputs[0]
    moved, waiting = {start}, [start]
    factors: list[str] = []
    while waiting:
        for reader, slot in scope.uses(waiting.pop()):
            facts = traits_of(reader.op)
            if reader.op == ROTARY and slot:
                return reader.inputs[0]
            if reader.op == FACTOR and reader.scope is scope:
                factors.append(reader.inputs[1 - slot])
            elif reader.scope is scope and (slot in facts.data.carried or facts.dtype.is_cast):
                new = [name for name in reader.outputs if name and name not in moved]
                moved.update(new)
                waiting += new
    if not factors:
        return ""
    reached = reachable([start], lambda name: [out for reader in scope.readers(name) for out in reader.outputs if out])
    others = (name for name in factors if name not in reached and not index.constants.is_constant(scope, name))
    return next(others, "")
