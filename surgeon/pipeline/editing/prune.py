"""Removes unused nodes, initializers, value_info entries and local functions from a model."""

from collections.abc import Container, Iterable, MutableSequence
from typing import Any

from onnx import GraphProto

from surgeon.ops.traversal import called_function_key, function_key, nodes_of
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.proof.model.exposed_outputs import required_nodes

FIRST_IR_WITH_DEFAULTS = 4  # before it, an initializer has to be an input too, which may not be overridden (IR.md)


def prune(draft: ModelDraft) -> int:
    """Remove all that no output of the main graph needs, except inputs; returns the number of removed nodes.

    Below IR version 4, where every initializer is an input, unused ones are removed as inputs too.
    """
    graph = draft.graph
    if not graph.output:
        return 0  # no node would stay
    nodes, used = required_nodes(graph, [value.name for value in graph.output])
    gone = filter_repeated(graph.node, lambda place, _: place in nodes)
    tensors = {*used, *(value.name for value in graph.input)}
    notes = [note for note in graph.quantization_annotation if note.tensor_name in tensors]
    used |= {entry.value for note in notes for entry in note.quant_parameter_tensor_names}
    if draft.skeleton.ir_version < FIRST_IR_WITH_DEFAULTS:
        stored = initializer_names(graph) - used
        filter_repeated(graph.input, lambda _, value: value.name not in stored)
    used |= {value.name for value in graph.input}
    filter_repeated(graph.initializer, lambda _, tensor: tensor.name in used)
    filter_repeated(graph.sparse_initializer, lambda _, tensor: tensor.values.name in used)
    keep_notes(draft, tensors | used)
    prune_functions(draft)
    draft.changed()
    return gone


def initializer_names(graph: GraphProto) -> set[str]:
    """Names of the initializers of a graph."""
    found = {tensor.name for tensor in graph.initializer}
    return found | {tensor.values.name for tensor in graph.sparse_initializer}


def keep_notes(draft: ModelDraft, tensors: Container[str]) -> None:
    """Remove value_info and quantization annotations of tensors other than these."""
    graph = draft.graph
    filter_repeated(graph.value_info, lambda _, value: value.name in tensors)
    filter_repeated(graph.quantization_annotation, lambda _, note: note.tensor_name in tensors)


def filter_repeated(rows: MutableSequence[Any], wanted: Any) -> int:
    """Keep items of a repeated field for which `wanted(index, item)` holds; returns the number of removed items."""
    gone = [place for place, row in enumerate(rows) if not wanted(place, row)]
    delete_slots(rows, gone)
    return len(gone)


def delete_slots(rows: MutableSequence[Any], places: Iterable[int]) -> None:
    """Remove items of a repeated field; neighbours together, because each deletion moves all later items."""
    run: list[int] = []
    for place in sorted(places, reverse=True):
        if run and run[-1] != place + 1:
            del rows[run[-1] : run[0] + 1]
            run = []
        run.append(place)
    if run:
        del rows[run[-1] : run[0] + 1]


def prune_functions(draft: ModelDraft) -> None:
    """Remove local functions that no node calls, directly or indirectly."""
    functions = draft.skeleton.functions
    while functions:
        called = {called_function_key(node) for node in nodes_of(draft.skeleton)}
        idle = [place for place, function in enumerate(functions) if function_key(function) not in called]
        if not idle:
            return
        delete_slots(functions, idle)
