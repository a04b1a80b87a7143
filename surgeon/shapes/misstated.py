"""Shapes that a graph states of what its nodes make, and that they do not make.

ONNX Runtime warns of them and goes by what is made, onnx.checker refuses them, and whoever reads the file is misled.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import onnx

from surgeon.indexing.index import Index
from surgeon.indexing.origin import Origin
from surgeon.indexing.scope import Node
from surgeon.listing import and_more
from surgeon.shapes.facts import Draft, Facts, Missing, Open, said, sane
from surgeon.shapes.inference import REFUSALS, infer
from surgeon.shapes.rules import by_rule
from surgeon.shapes.shapes import Shapes
from surgeon.shapes.stated import Stated
from surgeon.shapes.symbols import Size


class Misstatement(NamedTuple):
    """A node, the shape that the graph states of an output of it, and the shape that it makes, as text."""

    node: Node
    stated: str
    made: str


def misstatements(index: Index, shapes: Shapes, doubtful: Collection[str] = ()) -> Iterator[Misstatement]:
    """The nodes of the main graph that make other sizes, or other numbers of axes, than the graph states.

    Open sizes never count against a node.  What reads a tensor that is stated otherwise than made is passed over: what
    it makes follows from a statement that is wrong; so is what reads a tensor that is doubtful for another reason.
    """
    graph = index.model.skeleton.graph
    stated = {value.name: value for value in (*graph.value_info, *graph.output)}
    doubted = set(doubtful)
    holders = {body.owner for body in index.main.bodies}
    for node in index.main.nodes:
        if doubted.intersection(node.inputs):
            doubted.update(node.outputs)
            continue
        if doubted.intersection(node.outputs) or node in holders or stated.keys().isdisjoint(node.outputs):
            continue  # of bodies and of functions it would have to be asked what is true inside
        if index.called(node) is not None:
            continue
        for name, made in zip(node.outputs, _made(shapes, node), strict=False):
            wanted = _sizes(stated[name]) if name in stated else None
            if wanted is None or made.shape is None or not _contradict(wanted, made.shape):
                continue
            doubted.add(name)
            yield Misstatement(node, _text(stated[name].type.tensor_type.shape.dim), _text(made.shape))


@dataclass(frozen=True, slots=True)
class Misstated:
    """The first node of a model that makes another shape than the graph states, told as a clause; "" for none."""

    told: str


def misstated(index: Index) -> Misstated:
    """Look whether a graph states other shapes than its nodes make, once; where it does, believe none any more.

    Rules and proofs go by what is stated: a slice that takes all of what is stated to be there is no slice.  All nodes
    are looked at only where onnx's own inference, which takes a tenth of the time, finds anything.
    """
    return index.noted(Misstated, lambda: _looked_at(index))


def _looked_at(index: Index) -> Misstated:
    shapes = Shapes(Origin(index))
    found = list(misstatements(index, shapes)) if _may_misstate(index.model.skeleton) else []
    if not found:
        return Misstated("")
    index.noted(Stated, lambda: Stated(shapes.origin)).distrust()
    node, stated, made = found[0]
    told = f"the graph states the shape {stated}, and the node makes {made}"
    where = f"{node.op} at {node.label}{and_more(len(found) - 1)}"
    return Misstated(f"{where}: {told}; no shape that the file states of inner tensors is believed")


def _may_misstate(model: onnx.ModelProto) -> bool:
    """Whether onnx, told nothing but the inputs, infers other shapes than a model states, or cannot say."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for value in bare.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        inferred = onnx.shape_inference.infer_shapes(bare).graph
    except REFUSALS:
        return True
    made = {value.name: _sizes(value) for value in (*inferred.value_info, *inferred.output)}
    pairs = ((_sizes(value), made.get(value.name)) for value in (*model.graph.value_info, *model.graph.output))
    return any(one is not None and other is not None and _contradict(one, other) for one, other in pairs)


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


def _text(sizes: Sequence[Size | onnx.TensorShapeProto.Dimension | None]) -> str:
    return f"[{', '.join(map(_named, sizes))}]"


def _contradict(stated: Open, made: Open) -> bool:
    """Whether shapes are of different ranks, or differ in a number.  No axes at all are stated for "any shape" too."""
    if len(stated) != len(made):
        return bool(stated)
    pairs = zip(stated, made, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a >= 0 and a != b for a, b in pairs)
