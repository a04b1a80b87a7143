"""What nobody needs any more goes: nodes whose outputs nobody reads, weights, notes on tensors, functions."""

from collections.abc import Container, Iterable, MutableSequence
from typing import Any

from onnx import GraphProto

from surgeon.ops.traversal import called_function_key, function_key, nodes_of
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.proof.model.exposed_outputs import required_nodes

FIRST_IR_WITH_DEFAULTS = 4  # before it, a stored tensor has to be listed as an input, which nobody may feed (IR.md)


def prune(draft: ModelDraft) -> int:
    """Take out what no output of the main graph needs, inputs left as they are; returns how many nodes went.

    An input that is a stored tensor stays with it, but where its IR version lists all of these as inputs.
    """
    graph = draft.graph
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
    """The names of the tensors that a graph stores."""
    found = {tensor.name for tensor in graph.initializer}
    return found | {tensor.values.name for tensor in graph.sparse_initializer}


def keep_notes(draft: ModelDraft, tensors: Container[str]) -> None:
    """Take out what is stated of tensors other than these."""
    graph = draft.graph
    filter_repeated(graph.value_info, lambda _, value: value.name in tensors)
    filter_repeated(graph.quantization_annotation, lambda _, note: note.tensor_name in tensors)


def filter_repeated(rows: MutableSequence[Any], wanted: Any) -> int:
    """Keep rows of a repeated field for which `wanted(place, row)` holds; returns how many went."""
    gone = [place for place, row in enumerate(rows) if not wanted(place, row)]
    delete_slots(rows, gone)
    return len(gone)


def delete_slots(rows: MutableSequence[Any], places: Iterable[int]) -> None:
    """Take rows out of a repeated field; neighbours go together, as each deletion moves all behind it."""
    run: list[int] = []
    for place in sorted(places, reverse=True):
        if run and run[-1] != place + 1:
            del rows[run[-1] : run[0] + 1]
            run = []
        run.append(place)
    if run:
        del rows[run[-1] : run[0] + 1]


def prune_functions(draft: ModelDraft) -> None:
    """Take out local functions that nobody calls, and those that only such call."""
    functions = draft.skeleton.functions
    while functions:
        called = {called_function_key(node) for node in nodes_of(draft.skeleton)}
        idle = [place for place, function in enumerate(functions) if function_key(function) not in called]
        if not idle:
            return
        delete_slots(functions, idle)
