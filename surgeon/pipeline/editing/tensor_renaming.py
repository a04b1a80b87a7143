"""Names of tensors in all the places of a model where one can stand."""

from collections.abc import Mapping

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from surgeon.ops.traversal import subgraphs
from surgeon.pipeline.editing.draft import ModelDraft


def rename(draft: ModelDraft, names: Mapping[str, str]) -> None:
    """Give tensors of the main graph other names, everywhere: in bodies that read them, and in annotations too.

    Names that the original has stay known to the draft's claim.  The caller sees to it that no two tensors share one.
    """
    rename_in_graph(draft.graph, names)
    rename_training(draft.skeleton, names)
    known = draft.claim.tensors
    draft.claim.tensors = known | {new: known.get(old, old) for old, new in names.items()}
    draft.changed()


def split_boundary_tensor(draft: ModelDraft, value: ValueInfoProto, inner: str) -> tuple[str, str]:
    """Give the tensor of an input or output a name of its own, so that new nodes can stand between the two.

    value: of the graph's inputs or outputs; it keeps its name.  Returns what the tensor is called in the claim, and
    what the input or output is from now on.
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
    """The same in a node and its bodies alone."""
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
    """The same in a graph and its bodies alone."""
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
    """The same in what is said of how a model is trained."""
    for info in model.training_info:
        for graph in (info.initialization, info.algorithm):
            rename_in_graph(graph, names)
        for binding in (*info.initialization_binding, *info.update_binding):
            binding.key, binding.value = (names.get(name, name) for name in (binding.key, binding.value))


def strip_docs(holder: GraphProto | FunctionProto) -> int:
    """Empty the texts of a graph or function and of all that it holds for people; how many there were."""
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
