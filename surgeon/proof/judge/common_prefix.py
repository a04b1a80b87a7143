"""Nodes that both sides of a region compute first, alike: their results are rounded once and then count as exact.

If rounding puts a product halfway between two integers, a Round after it may go either way, unless both sides have
that same product.  So the common nodes run once, and the rest of both sides is proved on their results.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import onnx
from onnx import FunctionProto, ModelProto, NodeProto, ValueInfoProto, helper

from surgeon.ir.structure import Structure
from surgeon.ops.traits.trait_lookup import node_traits
from surgeon.ops.traversal import subgraphs
from surgeon.proof.judge.common_nodes import computations
from surgeon.proof.proof_case import RegionModels
from surgeon.runtime.sessions.oracle import Oracle
from surgeon.runtime.sessions.ort_session import SessionError
from surgeon.shapes.tensor_types import FLOATS

Feeds = dict[str, np.ndarray]


class CommonPrefix(NamedTuple):
    """The nodes that both sides compute first, and the rest of each side."""

    model: ModelProto
    """The common nodes; its outputs are inputs of `rest`."""
    rest: RegionModels
    """Both sides without the common nodes."""
    made: frozenset[str]
    """Outputs of `model` that are floats."""


def common_prefix(sides: RegionModels) -> CommonPrefix | None:
    """The common nodes before a node that rounds, compares or picks; None if there are none.

    Also None if they compute an output of the region, or if the dtype of one of their results is unknown.
    """
    structure = Structure()
    before, after = (_results(model, structure) for model in (sides.before, sides.after))
    shared = before.keys() & after.keys()
    names = {number: before[number][0] for number in shared}  # of the results, in the original
    renamed = {
        name: own
        for number in shared
        for outputs in after[number]  # of equal nodes too
        for name, own in zip(outputs, names[number], strict=True)
        if name
    }
    in_prefix = frozenset(name for results in names.values() for name in results if name)
    outputs = {port.name for model in (sides.before, sides.after) for port in model.graph.output}
    if not in_prefix or not outputs.isdisjoint((*in_prefix, *renamed)):
        return None
    behind = [node for node in sides.before.graph.node if node.input and in_prefix.isdisjoint(node.output)]
    prefix = [node for node in sides.before.graph.node if not in_prefix.isdisjoint(node.output)]
    if not any(map(_decides, behind)) or not any(map(_rounds, prefix)):
        return None
    left = [node for node in sides.after.graph.node if node.input and renamed.keys().isdisjoint(node.output)]
    read = {name for node in behind for name in node.input} & in_prefix
    read |= {renamed[name] for node in left for name in node.input if name in renamed}
    dtypes = _dtypes(sides.before)
    if not read <= dtypes.keys() or any(any(subgraphs(node)) for node in (*behind, *left)):
        return None
    made = [helper.make_tensor_value_info(name, dtypes[name], None) for name in sorted(read)]
    model = _model(sides.before, prefix, names={}, more=(), outputs=made)
    parts = (
        _model(side, nodes, names=names, more=made, outputs=side.graph.output)
        for side, nodes, names in ((sides.before, behind, {}), (sides.after, left, renamed))
    )
    rest = replace(sides, **dict(zip(("before", "after"), parts, strict=True)))
    return CommonPrefix(model, rest, frozenset(name for name in read if dtypes[name] in FLOATS))


@contextmanager
def without_common_prefix(
    sides: RegionModels, opened: Callable[[ModelProto, Mapping[str, FunctionProto]], Oracle]
) -> Iterator[tuple[RegionModels, Callable[[Feeds], Feeds], frozenset[str]]]:
    """Yield the models to prove, a function from inputs of `sides` to their inputs, and the added float inputs.

    Without a common prefix that runs, these are `sides` and their own inputs.  The function raises SessionError for
    inputs that the prefix rejects.
    """
    prefix = common_prefix(sides)
    try:
        session = opened(prefix.model, {}) if prefix is not None else None
    except SessionError:
        session = None
    if prefix is None or session is None:
        yield sides, lambda feeds: feeds, frozenset()
        return
    with session:
        yield prefix.rest, lambda feeds: {**feeds, **session.run(feeds)}, prefix.made


def _results(model: ModelProto, structure: Structure) -> dict[int, list[tuple[str, ...]]]:
    """The outputs of nodes that have inputs and no bodies, by a number that is equal for equal computations."""
    found: dict[int, list[tuple[str, ...]]] = {}
    for node, number in computations(model, structure).items():
        if node.inputs and not any(subgraphs(node.proto)):
            found.setdefault(number, []).append(node.outputs)
    return found


def _model(
    source: ModelProto,
    nodes: Iterable[NodeProto],
    *,
    names: Mapping[str, str],
    more: Sequence[ValueInfoProto],
    outputs: Iterable[ValueInfoProto],
) -> ModelProto:
    """A model of some of the nodes, with renamed inputs, and with the inputs of the source and `more`."""
    made = ModelProto()
    made.CopyFrom(source)
    graph = made.graph
    for part in (graph.node, graph.output, graph.value_info):
        del part[:]
    graph.node.extend(node for node in source.graph.node if not node.input)  # constants: each part has them
    graph.node.extend(nodes)
    graph.output.extend(outputs)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    graph.input.extend(more)
    return made


def _dtypes(model: ModelProto) -> dict[str, int]:
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return {}
    return {
        port.name: port.type.tensor_type.elem_type for port in inferred.value_info if port.type.tensor_type.elem_type
    }


def _rounds(node: NodeProto) -> bool:
    op = node_traits(node)
    return not (op.numerics.exact or op.data.copies_elements)


def _decides(node: NodeProto) -> bool:
    """Whether a node produces integers or booleans from floats, or picks among floats."""
    op = node_traits(node)
    is_cast = op.dtype.is_cast and any(item.name == "to" and item.i not in FLOATS for item in node.attribute)
    return op.numerics.rounding_scale_slot is not None or op.algebra.compares or op.numerics.is_argsort_like or is_cast
