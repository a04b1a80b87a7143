"""A product with a stored matrix that is too large to be run at once, in blocks of its columns.

Each column of a product hangs on one column of the matrix alone: a block is a product of its own.
"""

from collections.abc import Container, Iterator

from onnx import GraphProto, NodeProto

from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.segments.segment_run import Arrays


def transposed_weights(graph: GraphProto) -> dict[str, str]:
    """By the tensors that are stored matrices with their two axes swapped, those."""
    stored = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 2}
    return {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "Transpose" and not node.domain and node.input[0] in stored
        if all(list(item.ints) == [1, 0] for item in node.attribute)
    }


def can_split_columns(node: NodeProto, weights: Container[str]) -> bool:
    """Whether a node makes the product of something and of a stored matrix, of whose columns it can make some alone."""
    if node.domain or traits_of(node.op_type).products.factors != (0, 1) or len(node.output) != 1:
        return False
    return node.input[1] in weights and node.input[1] not in (node.input[0], *node.input[2:])


def column_blocks(node: NodeProto, weights: Arrays, most: int) -> Iterator[Arrays]:
    """The stored inputs of a product, so many columns of them at once that its matrix takes at most so many bytes."""
    name = node.input[1]
    matrix = weights[name]
    axis = matrix.ndim - 1
    if any(item.name == "transB" and item.i for item in node.attribute):
        axis -= 1
    count = matrix.shape[axis]
    step = max(1, count * most // matrix.nbytes)
    for start in range(0, count, step):
        cut = slice(start, start + step)
        beside = {
            other: array[..., cut] if array.ndim and array.shape[-1] == count and other in node.input[2:] else array
            for other, array in weights.items()
        }
        yield {**beside, name: matrix[(slice(None),) * axis + (cut,)]}
