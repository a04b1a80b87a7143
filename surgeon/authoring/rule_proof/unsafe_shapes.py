"""What goes past its tensors where shapes do not fit, in kernels of ONNX Runtime and in onnx's inference.

Instances are inferred and run in this process, which that would end: none is made or run on such shapes.
"""

from collections.abc import Mapping, Sequence

import onnx

from surgeon.ir.scope import qualified_name
from surgeon.ops.traits.op_traits import OpTraits
from surgeon.ops.traits.trait_lookup import traits_of

Shape = tuple[int, ...]

_LEAST_WINDOW = 3  # axes: of channels, and one at least in space


def windows_misfit(graph: onnx.GraphProto) -> str:
    """Say which windows have other axes than what they move over: of such, onnx before 1.22 crashes; "" for none."""
    known = _shapes(graph)
    for node in graph.node:
        op = traits_of(node.op_type)
        if "conv" in op.products.kind and op.products.weight_slot is not None and not node.domain:
            ends = node.input[0], node.input[op.products.weight_slot]
            over, windows = (len(known[name]) if name in known else None for name in ends)
            if windows is not None and (windows < _LEAST_WINDOW or over not in (None, windows)):
                return f"{node.op_type} moves windows of {windows} axes over a tensor of {over}"
    return ""


def may_crash(model: onnx.ModelProto) -> bool:
    """Whether a node of a graph of fixed shapes has a kernel that goes past its tensors for these."""
    graph = model.graph
    known = _shapes(graph)
    return any(not _fits(node, traits_of(qualified_name(node.domain, node.op_type)), known) for node in graph.node)


def _shapes(graph: onnx.GraphProto) -> dict[str, Shape]:
    """The shapes of what a graph is given; 0 for a free dim."""
    known: dict[str, Shape] = {item.name: tuple(item.dims) for item in graph.initializer}
    for value in graph.input:
        known[value.name] = tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
    return known


def _fits(node: onnx.NodeProto, op: OpTraits, known: Mapping[str, Shape]) -> bool:
    """Whether a product has one number or a vector over the columns wherever its kernel takes that as given."""
    if not op.products.per_column or op.products.factors is None or op.products.bias_slot is None:
        return True
    shape = known.get(node.input[op.products.factors[1]])
    if shape is None or len(shape) < 2:
        return False
    vector = (shape[-1],)
    taken = {(), (1,), vector} if len(shape) == 2 else {(), (1,)}
    return all(_given(node.input, place, known) in {None, *taken} for place in op.products.per_column) and (
        _given(node.input, op.products.bias_slot, known) in (None, vector)
    )


def _given(inputs: Sequence[str], place: int, known: Mapping[str, Shape]) -> Shape | None:
    """The shape of an input; None where it is left out or made by another node."""
    return known.get(inputs[place]) if place < len(inputs) and inputs[place] else None
