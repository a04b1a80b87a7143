"""Whether a model computes in half precision, or only stores in it."""

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from surgeon.ops.traits.trait_lookup import node_traits
from surgeon.ops.traversal import nodes_of, subgraphs

_HALVES = {"bfloat16": TensorProto.BFLOAT16, "float16": TensorProto.FLOAT16}  # the coarser one first


def half_of(model: ModelProto) -> str:
    """The coarsest half precision in which a node computes, or to which one casts; empty if there is none.

    Later results have its digits, even after a cast up.  A weight or an input that is cast up before any arithmetic is
    exact.
    """
    for name, dtype in _HALVES.items():
        if any(_casts_to(node, dtype) for node in nodes_of(model)) or _computes(model.graph, dtype):
            return name
    return ""


def _computes(graph: GraphProto, dtype: int) -> bool:
    """Whether a node of the main graph does arithmetic on tensors of a dtype."""
    half = {tensor.name for tensor in graph.initializer if tensor.data_type == dtype}
    half |= {value.name for value in graph.input if value.type.tensor_type.elem_type == dtype}
    for node in graph.node:
        if any(item.t.data_type == dtype for item in node.attribute if item.HasField("t")):
            half.update(node.output)
        traits, slots = node_traits(node), [slot for slot, name in enumerate(node.input) if name in half]
        if any(subgraphs(node)) and half:
            return True  # bodies are not followed
        if not slots or traits.dtype.is_cast or traits.shape.reads_only_shape:
            continue
        if not all(slot in traits.data.copies_elements for slot in slots):
            return True
        half.update(node.output)
    return False


def _casts_to(node: NodeProto, dtype: int) -> bool:
    """Whether a node casts to a dtype."""
    return node_traits(node).dtype.is_cast and any(item.name == "to" and item.i == dtype for item in node.attribute)
