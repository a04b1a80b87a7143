"""Tensors that are taken out of a sequence at a fixed place, where the node that makes the sequence is known."""

from collections.abc import Sequence
from typing import NamedTuple

from surgeon.shapes.facts import Draft, Facts, NodeView, Rule, axis_of
from surgeon.shapes.symbols import Size, smallest


class Piece(NamedTuple):
    """What is taken out: an input of a node, whole where `axis` is None, else from `start` to `end` along an axis.

    drops: whether the axis goes.
    """

    node: NodeView
    position: int
    axis: int | None = None
    start: Size = 0
    end: Size = 0
    drops: bool = False


def piece(site: NodeView) -> Piece | None:
    """What a SequenceAt takes; None where that is not known, or for another op."""
    if site.node.op != "SequenceAt":
        return None
    maker, places = site.maker(0), site.numbers(1)
    if maker is None or not places:
        return None
    place = places[0]
    if maker.node.op == "SequenceConstruct":
        count = len(maker.inputs)
        return Piece(maker, place % count) if -count <= place < count else None
    return _cut(maker, place) if maker.node.op == "SplitToSequence" else None


def _cut(maker: NodeView, place: int) -> Piece | None:
    """What is at a place of a SplitToSequence: a piece of one size, of its own, or an index by itself."""
    shape, told = maker.shape(0), maker.sizes(1)
    if shape is None or (maker.has(1) and told is None):
        return None
    axis = axis_of(maker.attribute("axis", 0), len(shape))
    if told is None or maker.shape(1) == ():
        step = 1 if told is None else told[0]
        if place < 0:
            return None
        end = smallest((place + 1) * step, shape[axis])
        return Piece(maker, 0, axis, place * step, end, told is None and not maker.attribute("keepdims", 1))
    if not -len(told) <= place < len(told):
        return None
    start: Size = sum(told[: place % len(told)])
    return Piece(maker, 0, axis, start, start + told[place])


def _sequence_at(site: NodeView) -> Sequence[Draft | Facts]:
    found = piece(site)
    if found is None:
        return []
    dtype, shape = found.node.facts(found.position)
    if found.axis is None or shape is None:
        return [Facts(dtype, shape)]
    kept = () if found.drops else (found.end - found.start,)
    return [Draft(dtype, [*shape[: found.axis], *kept, *shape[found.axis + 1 :]])]


RULES: dict[str, Rule] = {"SequenceAt": _sequence_at}
