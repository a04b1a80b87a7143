"""Renames tensors everywhere in a model: nodes, bodies, annotations and training info."""

from collections.abc import Mapping

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from surgeon.analysis.assumptions.model_assumptions import rename_assumptions
from surgeon.ops.traversal import subgraphs
from surgeon.pipeline.editing.draft import ModelDraft


def rename(draft: ModelDraft, names: Mapping[str, str]) -> None:
    """Rename tensors of the main graph everywhere: in nodes, bodies and annotations.

    The draft's claim keeps the original names.  The caller ensures that the new names are unused.
    """
    rename_in_graph(draft.graph, names)
    rename_training(draft.skeleton, names)
    rename_assumptions(draft.skeleton, names)
    known = draft.claim.tensors
    draft.claim.tensors = known | {new: known.get(old, old) for old, new in names.items()}
    draft.changed()


def split_boundary_tensor(draft: ModelDraft, value: ValueInfoProto, inner: str) -> tuple[str, str]:
    """Rename the tensor of an input or output, so that new nodes can be inserted between the two.

    value: input or output of the graph; it keeps its name.  Returns the names of the tensor and of the input or output
    in the claim.
    """
    name, source = value.name, draft.claim.original(value.name)
    rename(draft, {name: inner})
    value.name, known = name, set(draft.claim.tensors.values())
    own = f"{source}'"
    while own in known:
        own += "'"
    draft.claim.tensors[name] = own
    return source, own


def rename_in_node(node: NodeProto, names: Mapping[str, str]) -> None:
    """Rename tensors in one node and its bodies."""
    for held in (node.input, node.output):
        for place, name in enumerate(held):
            if name in names:
                held[place] = names[name]
    for device in node.device_configurations:
        for spec in device.sharding_spec:
            spec.tensor_name = names.get(spec.tensor_name, spec.tensor_name)
    for graph in subgraphs(node):
        rename_in_graph(graph, names)


def rename_in_graph(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename tensors in one graph and its bodies."""
    for values in (graph.input, graph.output, graph.value_info, graph.initializer):
        for value in values:
            if value.name in names:
                value.name = names[value.name]
    for sparse in graph.sparse_initializer:
        if sparse.values.name in names:
            sparse.values.name = names[sparse.values.name]
    for note in graph.quantization_annotation:
        note.tensor_name = names.get(note.tensor_name, note.tensor_name)
        for entry in note.quant_parameter_tensor_names:
            entry.value = names.get(entry.value, entry.value)
    for node in graph.node:
        rename_in_node(node, names)


def rename_training(model: ModelProto, names: Mapping[str, str]) -> None:
    """Rename tensors in the training info of a model."""
    for info in model.training_info:
        for graph in (info.initialization, info.algorithm):
            rename_in_graph(graph, names)
        for binding in (*info.initialization_binding, *info.update_binding):
            binding.key, binding.value = (names.get(name, name) for name in (binding.key, binding.value))


def strip_docs(holder: GraphProto | FunctionProto) -> int:
    """Clear the doc strings of a graph or function and of all that it contains; returns how many there were."""
    found = [holder] if holder.doc_string else []
    if isinstance(holder, GraphProto):
        found += [value for values in (holder.input, holder.output) for value in values if value.doc_string]
        found += [tensor for tensor in holder.initializer if tensor.doc_string]
    for item in (*holder.value_info, *holder.node):
        found += [item] if item.doc_string else []
    for node in holder.node:
        found += [attribute for attribute in node.attribute if attribute.doc_string]
    for item in found:
        item.ClearField("doc_string")
    return len(found) + sum(strip_docs(graph) for node in holder.node for graph in subgraphs(node))
