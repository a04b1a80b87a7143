"""Elements of a sequence or an optional, if the node that produces it is known."""

from collections.abc import Sequence
from typing import NamedTuple

from onnx import TensorProto

from surgeon.shapes.algebra.size_expressions import Size, size_min
from surgeon.shapes.tensor_types import NodeView, PartialType, Rule, TensorType, normalize_axis

_FURTHEST = 32  # nodes that a sequence goes through


class SequenceElement(NamedTuple):
    """A tensor from a sequence: an input of a node, whole or in part."""

    node: NodeView
    """The node that put it into the sequence."""
    position: int
    """The slot of the input."""
    axis: int | None = None
    """The axis that was split; None for the whole input."""
    start: Size = 0
    """First index along the axis."""
    end: Size = 0
    """End index along the axis, exclusive."""
    drops: bool = False
    """The axis is removed."""


def piece(site: NodeView) -> SequenceElement | None:
    """The tensor that a SequenceAt selects; None if it is unknown, or for another op."""
    if site.node.op != "SequenceAt":
        return None
    maker, places = site.producer(0), site.numbers(1)
    if maker is None or not places:
        return None
    place = places[0]
    if maker.node.op == "SequenceConstruct":
        count = len(maker.inputs)
        return SequenceElement(maker, place % count) if -count <= place < count else None
    return _cut(maker, place) if maker.node.op == "SplitToSequence" else None


def _cut(maker: NodeView, place: int) -> SequenceElement | None:
    """An element of a SplitToSequence: a piece of equal or listed size, or a single index."""
    shape, lengths = maker.shape(0), maker.sizes(1)
    if shape is None or (maker.has(1) and lengths is None):
        return None
    axis = normalize_axis(maker.attribute("axis", 0), len(shape))
    if lengths is None or maker.shape(1) == ():
        step = 1 if lengths is None else lengths[0]
        if place < 0:
            return None
        end = size_min((place + 1) * step, shape[axis])
        return SequenceElement(
            maker, 0, axis, start=place * step, end=end, drops=lengths is None and not maker.attribute("keepdims", 1)
        )
    if not -len(lengths) <= place < len(lengths):
        return None
    start: Size = sum(lengths[: place % len(lengths)])
    return SequenceElement(maker, 0, axis, start=start, end=start + lengths[place])


def _dtype(maker: NodeView | None, left: int = _FURTHEST) -> int | None:
    """The dtype of the elements of a sequence, or of an optional, from the node that produces it."""
    if maker is None or not left:
        return None
    if maker.node.op in ("SequenceConstruct", "SplitToSequence", "Optional"):
        return maker.dtype(0)
    if maker.node.op == "SequenceEmpty":
        return int(maker.attribute("dtype", TensorProto.FLOAT))
    goes_on = maker.node.op in ("SequenceInsert", "SequenceErase", "Identity")
    return _dtype(maker.producer(0), left - 1) if goes_on else None


def _sequence_at(site: NodeView) -> Sequence[PartialType | TensorType]:
    found = piece(site)
    if found is None:
        return [TensorType(_dtype(site.producer(0)), None)]
    dtype, shape = found.node.facts(found.position)
    if found.axis is None or shape is None:
        return [TensorType(dtype, shape)]
    kept = () if found.drops else (found.end - found.start,)
    return [PartialType(dtype, [*shape[: found.axis], *kept, *shape[found.axis + 1 :]])]


def _concat_from_sequence(site: NodeView) -> Sequence[PartialType | TensorType]:
    """The concatenation along the axis of the split, or of tensors that are known one by one."""
    maker = site.producer(0)
    dtype = _dtype(maker)
    if maker is None or site.attribute("new_axis", 0):
        return [TensorType(dtype, None)]
    if maker.node.op == "SplitToSequence" and (maker.has(1) or maker.attribute("keepdims", 1)):
        shape = maker.shape(0)
        axes = (
            [normalize_axis(view.attribute("axis", 0), len(shape or ())) for view in (site, maker)] if shape else [0, 1]
        )
        return [TensorType(dtype, shape if axes[0] == axes[1] else None)]
    shapes = [maker.shape(place) for place in range(len(maker.inputs))] if maker.node.op == "SequenceConstruct" else []
    known = [shape for shape in shapes if shape]
    if not known or len(known) < len(shapes) or len({len(shape) for shape in known}) > 1:
        return [TensorType(dtype, None)]
    axis = normalize_axis(site.attribute("axis", 0), len(known[0]))
    total: Size = sum((shape[axis] for shape in known[1:]), known[0][axis])
    return [TensorType(dtype, (*known[0][:axis], total, *known[0][axis + 1 :]))]


def _optional_get_element(site: NodeView) -> Sequence[PartialType | TensorType]:
    """The input of an optional; a tensor unchanged."""
    maker = site.producer(0)
    return [maker.facts(0) if maker is not None and maker.node.op == "Optional" else site.facts(0)]


RULES: dict[str, Rule] = {
    "SequenceAt": _sequence_at,
    "ConcatFromSequence": _concat_from_sequence,
    "OptionalGetElement": _optional_get_element,
}
