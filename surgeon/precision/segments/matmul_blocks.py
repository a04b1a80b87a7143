"""A product with a stored matrix that is too large for one run, in blocks of columns.

Each column of the product depends on only one column of the matrix, so each block is a product by itself.
"""

from collections.abc import Container, Iterator

from onnx import GraphProto, NodeProto

from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.precision.segments.activation_ranges import Arrays


def transposed_weights(graph: GraphProto) -> dict[str, str]:
    """Stored matrices by the tensor that is their transpose."""
    stored = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 2}
    return {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type == "Transpose" and not node.domain and node.input[0] in stored
        if all(list(item.ints) == [1, 0] for item in node.attribute)
    }


def can_split_columns(node: NodeProto, weights: Container[str]) -> bool:
    """Whether a node multiplies by a stored matrix whose columns can be split."""
    if node.domain or traits_of(node.op_type).products.factors != (0, 1) or len(node.output) != 1:
        return False
    return node.input[1] in weights and node.input[1] not in (node.input[0], *node.input[2:])


def column_blocks(node: NodeProto, weights: Arrays, most: int) -> Iterator[Arrays]:
    """The stored inputs of a product, in blocks of columns whose matrix takes at most so many bytes."""
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
