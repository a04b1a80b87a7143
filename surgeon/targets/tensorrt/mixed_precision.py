"""Nodes that TensorRT runs in float32 in a half-precision model: it follows the dtypes of the file."""

from collections.abc import Iterator

from onnx import TensorProto

from surgeon.ir.index import Index
from surgeon.ir.scope import Node
from surgeon.ops.schemas.attribute_values import dtype_name
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.printed_commands import command
from surgeon.shapes.index_shapes import shapes_of
from surgeon.shapes.tensor_types import FLOATS, HALVES
from surgeon.targets.lint.dtype_conflicts import InferredDtypes, op_text
from surgeon.targets.lint.finding import DiagnosticCollector, node_path

HALF = command("convert", "ORIGINAL", "OUT", "--ep", "tensorrt")
LONGEST_SOFTMAX = 2048
"""Sums of more exponentials than these lose digits in float16."""


def note_precision(index: Index, dtypes: InferredDtypes, found: DiagnosticCollector) -> None:
    """Report nodes that run in float32 in a model of partly half precision, and Casts that have no effect there."""
    nodes = [node for scope in index.scopes if scope.function is None for node in scope.nodes]
    if not any(dtypes.dtype(node.scope, name) in HALVES for node in nodes for name in node.outputs if name):
        return
    for node in nodes:
        for reason, help_ in _of_node(index, dtypes, node):
            found.add("advice", op_text(node), reason, at=node_path(node), node=node, helps=[help_], stops=False)


def _of_node(index: Index, dtypes: InferredDtypes, node: Node) -> Iterator[tuple[str, str]]:
    facts = traits_of(node.op)
    computes = any(
        (
            facts.numerics.accumulates,
            facts.products.kind,
            facts.numerics.squares,
            facts.numerics.error_is_absolute,
            facts.algebra.family in ("sum", "product"),
        )
    )
    kinds = [dtypes.dtype(node.scope, name) for name in node.inputs if name]
    first = kinds[0] if kinds else None
    if node.op == "Cast":
        yield from _of_cast(dtypes, node, first)
    elif first is not None and first in FLOATS - HALVES and computes:
        reason = f"it computes in {dtype_name(first)} in a half-precision model, so the engine does too"
        yield reason, f"to see which nodes need it, and why: {HALF}"
    if facts.numerics.is_softmax and first == TensorProto.FLOAT16:
        length = _length(index, node)
        if length is not None and length > LONGEST_SOFTMAX:
            reason = f"it sums {length:,} exponentials in float16, which loses digits"
            yield reason, f"keep it in float32, by converting the original model again: {HALF}"
    if node.op == "DequantizeLinear":
        behind = [reader for name in node.outputs for reader in node.scope.readers(name)]
        if any(reader.op == "Cast" for reader in behind):
            yield (
                "a Cast separates it from its consumer, so TensorRT cannot run the consumer in integers",
                "give its scale the dtype of the Cast",
            )


def _of_cast(dtypes: InferredDtypes, node: Node, given: int | None) -> Iterator[tuple[str, str]]:
    made = dtypes.dtype(node.scope, node.outputs[0])
    if given is not None and given == made:
        yield f"it casts {dtype_name(given)} to itself", "remove it with the rule no_op_cast"
        return
    home = node.scope.defining_scope(node.inputs[0])
    before = None if home is None else home.producers.get(node.inputs[0])
    if before is not None and before.op == "Cast" and made in HALVES and given in FLOATS:
        source = dtypes.dtype(before.scope, before.inputs[0])
        if source == made:
            yield "it undoes the Cast before it", "read the input of that Cast instead"


def _length(index: Index, node: Node) -> int | None:
    """Over how many elements a softmax runs, if known."""
    shape = shapes_of(index).shape(node.scope, node.inputs[0])
    axis = node.attribute("axis")
    place = axis.i if axis is not None else -1
    if shape is None or not -len(shape) <= place < len(shape):
        return None
    size = shape[place]
    return size if isinstance(size, int) else None
