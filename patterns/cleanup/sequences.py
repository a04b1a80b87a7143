"""Sequences whose tensors are all known: insertion, removal and access."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule


class Sequence(Captures):
    """The tensors of a sequence, one of them and its place, and the settings of their concatenation."""

    parts: tuple[Tensor, ...] = ()
    x: Tensor | Any = None
    place: int | Any = None
    axis: int = 0
    new_axis: int = 0
    dtype: int | Any = None


def made(g: Graph, m: Sequence) -> Tensor:
    """SequenceConstruct, which may have other consumers."""
    return g.shared(g.sequence_construct(*m.parts))


def index_of(m: Sequence, count: int) -> int:
    """Return the place counted from the front."""
    place = count if m.place is None else m.place
    require(-count <= place <= count, "the place is out of bounds")
    return place + count if place < 0 else place


def at(g: Graph, m: Sequence) -> Tensor:
    """An element."""
    return g.sequence_at(made(g, m), m.place)


@rule(patterns=[at], target="any")
def sequence_at(g: Graph, m: Sequence) -> Tensor:
    """Replace an element of a sequence by its tensor.

    What: SequenceAt of a SequenceConstruct at a fixed place.
    Numerics: none.
    """
    place = index_of(m, len(m.parts))
    require(place < len(m.parts), "the place is out of bounds")
    return m.parts[place]


def length(g: Graph, m: Sequence) -> Tensor:
    """The number of elements."""
    return g.sequence_length(made(g, m))


@rule(patterns=[length], target="any")
def sequence_length(g: Graph, m: Sequence) -> Tensor:
    """Write the length of a sequence as a constant.

    What: SequenceLength of a SequenceConstruct.
    Numerics: none.
    """
    return g.literal(np.array(len(m.parts), np.int64))


def joined(g: Graph, m: Sequence) -> Tensor:
    """All elements as one tensor."""
    return g.concat_from_sequence(made(g, m), axis=m.axis, new_axis=m.new_axis)


@rule(patterns=[joined], target="any")
def concat_from_sequence(g: Graph, m: Sequence) -> Tensor:
    """Concatenate the tensors of a sequence by Concat.

    What: ConcatFromSequence of a SequenceConstruct, along an existing or a new axis.
    Numerics: none.
    """
    parts = [g.unsqueeze(one, np.array([m.axis])) for one in m.parts] if m.new_axis else m.parts
    return g.concat(*parts, axis=m.axis)


def inserted(g: Graph, m: Sequence) -> Tensor:
    """A sequence with one more element."""
    return g.sequence_insert(made(g, m), m.x, m.place)


def first(g: Graph, m: Sequence) -> Tensor:
    """An empty sequence with its first element."""
    return g.sequence_insert(g.shared(g.sequence_empty(dtype=m.dtype)), m.x, m.place)


def erased(g: Graph, m: Sequence) -> Tensor:
    """A sequence with one element removed."""
    return g.sequence_erase(made(g, m), m.place)


@rule(patterns=[inserted, first, erased], target="any")
def sequence_construct(g: Graph, m: Sequence) -> Tensor:
    """Write the insertion or removal of a tensor as a SequenceConstruct.

    What: SequenceInsert into a SequenceConstruct or SequenceEmpty, and SequenceErase, at fixed places.
    Numerics: none.
    """
    parts = list(m.parts)
    if m.x is not None:
        parts.insert(index_of(m, len(parts)), m.x)
    else:
        place = len(parts) - 1 if m.place is None else index_of(m, len(parts))
        require(0 <= place < len(parts), "the place is out of bounds")
        del parts[place]
    require(bool(parts), "the sequence becomes empty")
    return g.sequence_construct(*parts)
