"""Whether a model computes in half precision, or only stores in it."""

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from surgeon.ops.records import likened_node
from surgeon.ops.walking import graphs_of, nodes_of

_HALF = TensorProto.FLOAT16


def computes_in_half(model: ModelProto) -> bool:
    """Whether a node computes in float16, or rounds to it: what follows has its digits, also where it is cast up.

    A weight or an input that is cast up before anything is computed of it is exact.
    """
    return any(map(_rounds, nodes_of(model))) or _computes(model.graph)


def _computes(graph: GraphProto) -> bool:
    """Whether a node of the main graph computes of what is float16 there."""
    half = {tensor.name for tensor in graph.initializer if tensor.data_type == _HALF}
    half |= {value.name for value in graph.input if value.type.tensor_type.elem_type == _HALF}
    for node in graph.node:
        if any(item.t.data_type == _HALF for item in node.attribute if item.HasField("t")):
            half.update(node.output)
        told, slots = likened_node(node), [slot for slot, name in enumerate(node.input) if name in half]
        if any(graphs_of(node)) and half:
            return True  # what its bodies read is not followed
        if not slots or told.retypes or told.reads_shape:
            continue
        if not all(slot in told.moves for slot in slots):
            return True
        half.update(node.output)
    return False


def _rounds(node: NodeProto) -> bool:
    """Whether a node casts to float16."""
    return likened_node(node).retypes and any(item.name == "to" and item.i == _HALF for item in node.attribute)
