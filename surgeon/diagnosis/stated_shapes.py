"""Shapes that a graph states of what its nodes make, and that they do not make.

ONNX Runtime warns of them and goes by what is made, onnx.checker refuses them, and whoever reads the file is misled.
"""

from collections.abc import Sequence

import onnx

from surgeon.diagnosis.dtypes import spelled
from surgeon.diagnosis.finding import Diagnostics, place_of
from surgeon.diagnosis.fitting import text
from surgeon.indexing.index import Index
from surgeon.indexing.scope import Node
from surgeon.shapes.facts import Draft, Facts, Missing, Open, said, sane
from surgeon.shapes.inference import infer
from surgeon.shapes.rules import by_rule
from surgeon.shapes.shapes import Shapes
from surgeon.shapes.symbols import Size

REFUSED = "which onnx.checker refuses where it can tell"


def check_stated_shapes(index: Index, shapes: Shapes, found: Diagnostics) -> None:
    """Note the nodes of the main graph that make other sizes, or other numbers of axes, than the graph states.

    Open sizes never count against a node.  What reads a tensor that is stated otherwise than made is passed over: what
    it makes follows from a statement that is wrong.
    """
    graph = index.model.skeleton.graph
    stated = {value.name: value for value in (*graph.value_info, *graph.output)}
    doubtful = {name for one in found if one.kind == "shape" for node in one.where for name in node.outputs}
    holders = {body.owner for body in index.main.bodies}
    for node in index.main.nodes:
        if doubtful.intersection(node.inputs):
            doubtful.update(node.outputs)
            continue
        if doubtful.intersection(node.outputs) or node in holders or stated.keys().isdisjoint(node.outputs):
            continue  # of bodies and of functions it would have to be asked what is true inside
        if index.called(node) is not None:
            continue
        for name, made in zip(node.outputs, _made(shapes, node), strict=False):
            wanted = _sizes(stated[name]) if name in stated else None
            if wanted is None or made.shape is None or not _contradict(wanted, made.shape):
                continue
            doubtful.add(name)
            told = [text(list(map(_named, sizes))) for sizes in (stated[name].type.tensor_type.shape.dim, made.shape)]
            reason = f"the graph states the shape {told[0]}, and the node makes {told[1]}, {REFUSED}"
            together = f"the graph states other shapes than the node makes, {REFUSED}"
            helps = [f"state {told[1]}"]
            found.add("shape", spelled(node), reason, at=place_of(node), node=node, helps=helps, stops=False,
                      together=together)


def _made(shapes: Shapes, node: Node) -> Sequence[Draft | Facts]:
    """What a node makes of its inputs, whatever is stated of it; nothing where no rule and no inference tells."""
    site = shapes.site(node)
    try:
        drafts = [sane(draft) for draft in said(by_rule, site) or ()]
    except Missing:
        return ()  # it asks for more than for its inputs
    return drafts if any(draft.shape is not None for draft in drafts) else [sane(draft) for draft in infer(site)]


def _sizes(value: onnx.ValueInfoProto) -> Open | None:
    """The sizes that are stated as numbers, None in the place of others; None where no shape is stated."""
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    return [int(dim.dim_value) if dim.HasField("dim_value") else None for dim in tensor.shape.dim]


def _named(size: Size | onnx.TensorShapeProto.Dimension | None) -> str:
    """A size as people read it, "?" for one that has no name."""
    if isinstance(size, onnx.TensorShapeProto.Dimension):
        return str(size.dim_value) if size.HasField("dim_value") else size.dim_param or "?"
    return "?" if size is None or "?" in str(size) else str(size)


def _contradict(stated: Open, made: Open) -> bool:
    """Whether shapes are of different ranks, or differ in a number.  No axes at all are stated for "any shape" too."""
    if len(stated) != len(made):
        return bool(stated)
    pairs = zip(stated, made, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a >= 0 and a != b for a, b in pairs)
