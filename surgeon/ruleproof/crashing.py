"""Kernels of ONNX Runtime that go past their tensors where shapes do not fit: none is run on such shapes here.

Instances are run in this process, which a kernel of that kind would end.
"""

from collections.abc import Mapping, Sequence

import onnx

Shape = tuple[int, ...]

# Where the right factor of a product of integers, what it has for each column, and the bias stand among the inputs.
PRODUCTS: Mapping[str, tuple[int, tuple[int, ...], int]] = {
    "DynamicQuantizeMatMul": (1, (2, 3), 4),
    "MatMulIntegerToFloat": (1, (3, 5), 6),
}


def may_crash(model: onnx.ModelProto) -> bool:
    """Whether a node of a graph of fixed shapes has a kernel that goes past its tensors for these."""
    graph = model.graph
    known: dict[str, Shape] = {item.name: tuple(item.dims) for item in graph.initializer}
    for value in graph.input:
        known[value.name] = tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
    found = (node for node in graph.node if node.domain == "com.microsoft" and node.op_type in PRODUCTS)
    return any(not _fits(node, known) for node in found)


def _fits(node: onnx.NodeProto, known: Mapping[str, Shape]) -> bool:
    """Whether a product has one number or a vector over the columns wherever its kernel takes that as given."""
    right, of_columns, bias = PRODUCTS[node.op_type]
    shape = known.get(node.input[right])
    if shape is None or len(shape) < 2:
        return False
    vector = (shape[-1],)
    taken = {(), (1,), vector} if len(shape) == 2 else {(), (1,)}
    return all(_given(node.input, place, known) in {None, *taken} for place in of_columns) and (
        _given(node.input, bias, known) in (None, vector)
    )


def _given(inputs: Sequence[str], place: int, known: Mapping[str, Shape]) -> Shape | None:
    """The shape of an input; None where it is left out or made by another node."""
    return known.get(inputs[place]) if place < len(inputs) and inputs[place] else None
