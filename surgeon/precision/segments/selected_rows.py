"""Rows that a model chooses by scores, compared under the original's choice.

Where two scores are nearly equal, rounding swaps two rows, and all later outputs differ as much as two rows do.  That
is not an error of the conversion.  So the original's indices replace the choosing nodes in the converted model; the
scores become outputs and are compared too.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from surgeon.file.model import Model
from surgeon.file.save import OutputModel
from surgeon.file.temporary_model import temporary_model
from surgeon.ops.traits.op_traits import NO_TRAITS, OpTraits
from surgeon.ops.traits.trait_lookup import traits_of
from surgeon.ops.traversal import names_read
from surgeon.pipeline.editing.draft import ModelDraft

FIRST_OPSET = 11
"""The least opset of ai.onnx with GatherElements, which takes the values at the indices."""
_SCORES = "scores of {}"


def choices(graph: GraphProto) -> dict[str, str]:
    """The scores by the indices that nodes choose by them and other nodes read.

    A node that gives only indices which are an output is left out: it is judged by the fraction of changed elements.
    """
    read = {name for node in graph.node for name in names_read(node)}
    ends = {value.name for value in graph.output}
    inner, either = read - ends, read | ends
    found: dict[str, str] = {}
    for node in graph.node:
        places = _places(node)
        if places in (either if _picks(node) else inner):
            found[places] = node.input[0]
    return found


def scores_of(places: str) -> str:
    """The name of the scores of these indices, for any name of their tensor."""
    return _SCORES.format(places)


def _places(node: NodeProto) -> str:
    """The indices that a node chooses; empty for other nodes."""
    facts = _facts(node)
    if not facts.numerics.is_argsort_like or not (facts.dtype.returns_indices or facts.dtype.later_outputs_are_indices):
        return ""
    return next(iter(node.output[1 if _picks(node) else 0 :]), "")


def _picks(node: NodeProto) -> bool:
    """Whether a choosing node also returns the values at the indices (its first output)."""
    return _facts(node).dtype.later_outputs_are_indices


def _facts(node: NodeProto) -> OpTraits:
    return NO_TRAITS if node.domain else traits_of(node.op_type)


@contextmanager
def choosing(model: OutputModel, chosen: Collection[str]) -> Iterator[OutputModel]:
    """Give a model with these indices as inputs, and their scores as further outputs, named by `scores_of`.

    A model in a file is copied to its folder until the end of the block.
    """
    with Model.open(model) as opened:
        draft = ModelDraft(opened)
        _put(draft.graph, chosen)
        patch = draft.patch()
        if isinstance(model, Path):
            with temporary_model(opened, lambda _: patch, None) as path:
                yield path
        else:
            yield patch.to_proto()


def _put(graph: GraphProto, chosen: Collection[str]) -> None:
    """Add the inputs and outputs to a graph."""
    nodes: list[NodeProto] = []
    for node in graph.node:
        places = _places(node)
        if places not in chosen:
            nodes.append(node)
            continue
        graph.input.append(helper.make_tensor_value_info(places, TensorProto.INT64, None))
        nodes.append(helper.make_node("Identity", [node.input[0]], [scores_of(places)]))
        graph.output.append(ValueInfoProto(name=scores_of(places)))
        if _picks(node) and node.output[0]:
            axis = next((item.i for item in node.attribute if item.name == "axis"), -1)
            nodes.append(helper.make_node("GatherElements", [node.input[0], places], [node.output[0]], axis=axis))
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
