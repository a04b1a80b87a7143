"""Sequences and optionals between the nodes of a model: their types, as onnx infers them."""

import onnx
from onnx import ModelProto, NodeProto, TypeProto

from surgeon.ops.schemas import schema
from surgeon.ops.traversal import imports_of

TENSOR = "tensor_type"


def type_of_no_tensor(model: ModelProto, name: str) -> TypeProto | None:
    """The type of an output of the main graph's nodes if onnx infers a non-tensor type; else None."""
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return None  # onnx cannot infer anything; the caller reports an unknown type
    found = next((value.type for value in graph.value_info if value.name == name), None)
    return None if found is None or found.WhichOneof("value") in (None, TENSOR) else found


def is_no_tensor(model: ModelProto, name: str) -> bool:
    """Whether a node of the main graph produces a value that is never a tensor, by its schema."""
    return any(_makes_no_tensor(node, place, model) for node in model.graph.node
               for place, made in enumerate(node.output) if made == name)


def _makes_no_tensor(node: NodeProto, place: int, model: ModelProto) -> bool:
    known = schema(node.domain, node.op_type, imports_of(model.opset_import).get(node.domain))
    formal = None if known is None else known.output_at(place)
    allowed = known.allowed(formal) if known is not None and formal is not None else ()
    return bool(allowed) and not any(kind.startswith("tensor(") for kind in allowed)
