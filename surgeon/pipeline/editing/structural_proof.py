"""Proves an edit without running it: every node is one of the original, up to tensor names.

Every tensor of a graph has one producer.  So if each node of the edited model equals the producer of the same tensors
in the original, and each initializer is equal, then its outputs equal the same tensors of the original.
"""

from collections.abc import Mapping

import onnx
from onnx import ModelProto, NodeProto, TensorProto

from surgeon.ops.traversal import GRAPHS, function_key, imports_of, subgraphs
from surgeon.pipeline.editing.claim import ModelClaim
from surgeon.pipeline.editing.tensor_renaming import rename_in_node, strip_docs


def structural_difference(original: ModelProto, edited: ModelProto, claim: ModelClaim) -> str:
    """The first difference that keeps the edited model from being part of the original, as a clause; empty for none.

    Both are skeletons of one file, without the payloads of large tensors.
    """
    names = claim.tensors
    makers = {name: node for node in original.graph.node for name in node.output if name}
    mute = [node for node in original.graph.node if not any(node.output)]
    stored = _stored(original, {})
    given = {names.get(value.name, value.name) for value in edited.graph.input}
    known = {*makers, *stored, *(value.name for value in original.graph.input)}
    kept = _stored(edited, names)
    for name, tensor in kept.items():
        if stored.get(name) != tensor:
            return f"the initializer {name!r} differs"
    bare = next((name for name in given if name in stored and name not in kept), None)
    if bare is not None:
        return f"the input {bare!r} has lost its default value"
    for node in edited.graph.node:
        if node.output and makers.get(node.output[0]) == node and _keeps_names(node, names):
            continue  # nearly always
        plain = _plain(node, names)
        first = next((name for name in plain.output if name), None)
        alike = [makers[first]] if first in makers else [] if first else mute
        if all(_plain(one, {}).SerializeToString() != plain.SerializeToString() for one in alike):
            return f"{node.op_type} at {node.name or first or 'no name'!r} is not a node of the original"
    lost = next((name for name in given if name not in known), None)
    if lost is not None:
        return f"the input {lost!r} is not a tensor of the original"
    if imports_of(original.opset_import) != imports_of(edited.opset_import):
        return "the opsets differ"
    functions = {function_key(function): _plain_function(function) for function in original.functions}
    for function in edited.functions:
        if functions.get(function_key(function)) != _plain_function(function):
            return f"the function {function.name!r} differs"
    return ""


def _keeps_names(node: NodeProto, names: Mapping[str, str]) -> bool:
    """Whether no input or output of a node is renamed."""
    if not names:
        return True
    is_flat = not any(attribute.type in GRAPHS for attribute in node.attribute)
    return is_flat and names.keys().isdisjoint(node.input) and names.keys().isdisjoint(node.output)


def _plain(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    """A copy of a node with the tensor names of the original, without documentation."""
    copy = NodeProto()
    copy.CopyFrom(node)
    _forget(copy)
    rename_in_node(copy, names)
    return copy


def _forget(node: NodeProto) -> None:
    """Clear fields of a node and its bodies that do not affect its result."""
    for name in ("name", "doc_string", "metadata_props"):
        node.ClearField(name)
    for attribute in node.attribute:
        attribute.ClearField("doc_string")
    for graph in subgraphs(node):
        strip_docs(graph)
        for name in ("value_info", "metadata_props", "name"):
            graph.ClearField(name)
        for inner in graph.node:
            _forget(inner)


def _stored(model: ModelProto, names: Mapping[str, str]) -> dict[str, bytes]:
    """Initializers of the main graph by the original's names, as bytes without documentation."""
    found: dict[str, bytes] = {}
    for tensor in model.graph.initializer:
        copy = TensorProto()
        copy.CopyFrom(tensor)
        copy.ClearField("doc_string")
        copy.name = names.get(tensor.name, tensor.name)
        found[copy.name] = copy.SerializeToString()
    for sparse in model.graph.sparse_initializer:
        held = onnx.SparseTensorProto()
        held.CopyFrom(sparse)
        held.values.name = names.get(sparse.values.name, sparse.values.name)
        found[held.values.name] = held.SerializeToString()
    return found


def _plain_function(function: onnx.FunctionProto) -> bytes:
    copy = onnx.FunctionProto()
    copy.CopyFrom(function)
    strip_docs(copy)
    copy.ClearField("value_info")
    copy.ClearField("metadata_props")
    for node in copy.node:
        _forget(node)
    data: bytes = copy.SerializeToString()
    return data
