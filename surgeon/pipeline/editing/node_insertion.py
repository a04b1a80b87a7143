"""Inserts nodes, built with the graph helpers, into the main graph of a draft."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from surgeon.errors import UsageError
from surgeon.ops.builder.graph import Graph
from surgeon.ops.schemas import schema
from surgeon.ops.schemas.attribute_values import dtype_name, type_string
from surgeon.ops.schemas.op_schema import normalize_domain
from surgeon.ops.traversal import imports_of, unique_name
from surgeon.pipeline.editing.draft import ModelDraft
from surgeon.pipeline.editing.tensor_renaming import rename_in_node
from surgeon.printed_commands import upgrade_to

Build = Callable[..., Any]
"""A function of a graph and its inputs that returns its outputs."""
_CASTS_SINCE = 6  # first opset at which `to` of Cast is a number (ONNX changelog, Cast-6)


def opset_of(draft: ModelDraft) -> int:
    """The opset of ai.onnx for new nodes.  Raises UsageError if the model does not import ai.onnx."""
    opset = imports_of(draft.skeleton.opset_import).get("")
    if opset is None:
        raise UsageError("The model does not import ai.onnx, so surgeon cannot add nodes. Export it again.")
    return opset


def require_casts(model: onnx.ModelProto, *dtypes: int) -> None:
    """Raise UsageError if the opset's Cast has a string attribute, or does not support one of these dtypes."""
    opset = imports_of(model.opset_import).get("", _CASTS_SINCE)
    if opset < _CASTS_SINCE:
        reason = f"A Cast needs opset {_CASTS_SINCE}, but the model has opset {opset}"
        raise UsageError(f"{reason}. Export the model with a newer opset.")
    for dtype in dtypes:
        later = range(opset, onnx.defs.onnx_opset_version() + 1)
        since = next((number for number in later if _casts(dtype, number)), 0)
        if since != opset:
            advice = f"raise it: {upgrade_to(since)}" if since else "choose another dtype"
            raise UsageError(f"Cast of opset {opset} does not support {dtype_name(dtype)}; {advice}.")


def _casts(dtype: int, opset: int) -> bool:
    """Whether Cast supports a dtype, as input and output."""
    known = schema("", "Cast", opset)
    return known is not None and type_string(dtype) in known.allowed(known.inputs[0])


def add_nodes(
    draft: ModelDraft, build: Build, reads: Mapping[str, int], makes: Sequence[str], *, at: int | None = None
) -> None:
    """Insert the nodes that `build` adds into the main graph.

    reads: input tensors and their dtypes (TensorProto.DataType).  makes: names of the outputs; inner tensors get unused
    names.  at: the index of the first new node.  Default: after all others.
    """
    graph = Graph(opset=opset_of(draft))
    inputs = [gs.Variable(name, onnx.helper.tensor_dtype_to_np_dtype(dtype), None) for name, dtype in reads.items()]
    outputs = build(graph, *inputs)
    graph.inputs.extend(inputs)
    graph.outputs.extend(outputs if isinstance(outputs, (list, tuple)) else [outputs])
    made = gs.export_onnx(graph.toposort(), do_type_check=False)
    names = dict(zip([value.name for value in made.graph.output], makes, strict=True))
    inner = [name for node in made.graph.node for name in node.output] + [item.name for item in made.graph.initializer]
    taken = draft.taken() | set(makes)
    for name in inner:
        if name and name not in names:
            names[name] = unique_name(f"{makes[0]}_{name.rpartition('/')[2]}", taken)
            taken.add(names[name])
    for node in made.graph.node:
        rename_in_node(node, names)
        node.name = node.output[0]
    for tensor in made.graph.initializer:
        tensor.name = names[tensor.name]
    draft.store(*made.graph.initializer)
    place = len(draft.graph.node) if at is None else at
    for number, node in enumerate(made.graph.node):
        draft.graph.node.insert(place + number, node)
    known = imports_of(draft.skeleton.opset_import)
    for domain in sorted({normalize_domain(node.domain) for node in made.graph.node} - known.keys()):
        draft.skeleton.opset_import.add(domain=domain, version=1)
    draft.claim.by_structure = False
    draft.changed()
