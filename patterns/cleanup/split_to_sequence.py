"""Tensors split into sequences, as exporters write torch.split, torch.chunk and torch.unbind."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule

READERS = ("SequenceAt", "SequenceLength", "ConcatFromSequence", "SequenceInsert", "SequenceErase")


class Pieces(Captures):
    """A tensor, how it is split, and the settings of the node that reads the parts.

    sizes: the size of all parts, or of each.  Without it they have one element, and may lose the axis.
    """

    x: Tensor
    sizes: Tensor | Any = None
    axis: int = 0
    keepdims: int = 1
    place: int = 0
    joined: int = 0
    new_axis: int = 0

    @property
    def loses_axis(self) -> bool:
        """Whether the parts lose the axis."""
        return self.sizes is None and not self.keepdims

    @property
    def step(self) -> int:
        """The size of all parts but the last."""
        is_known = self.sizes is None or (self.sizes.rank == 0 and self.sizes.is_constant)
        require(is_known, "the size of the parts is unknown")
        return 1 if self.sizes is None else int(self.sizes.values)


def cut(g: Graph, m: Pieces) -> Tensor:
    """SplitToSequence."""
    return g.split_to_sequence(m.x, m.sizes, axis=m.axis, keepdims=m.keepdims)


def part(g: Graph, m: Pieces) -> Tensor:
    """One of the parts."""
    return g.sequence_at(g.shared(cut(g, m)), m.place)


@rule(patterns=[part], target="any")
def sequence_at_of_split(g: Graph, m: Pieces) -> Tensor:
    """Replace a part of a split tensor by a Gather or a Slice.

    What: SequenceAt, at a fixed place, of a SplitToSequence.  Gather selects a part that loses the axis, Slice one of
    the parts of one size along an axis whose size is not fixed.  `split_to_sequence` replaces the others.
    Numerics: none.  For a place after the last part, SequenceAt would stop the model, but the Slice is empty.
    """
    if m.loses_axis:
        return g.gather(m.x, np.array(m.place), axis=m.axis)
    is_free = m.x.rank is not None and not isinstance(m.x.shape[m.axis], int)
    require(is_free, "the size of the axis is fixed, so that split_to_sequence writes one Split for all parts")
    require(m.place >= 0, "the place counts from the end")
    return g.slice(m.x, [m.place * m.step], [m.place * m.step + m.step], [m.axis])


def rejoined(g: Graph, m: Pieces) -> Tensor:
    """All parts as one tensor."""
    return g.concat_from_sequence(g.shared(cut(g, m)), axis=m.joined, new_axis=m.new_axis)


@rule(patterns=[rejoined], target="any")
def concat_of_split(g: Graph, m: Pieces) -> Tensor:
    """Replace the concatenation of all parts of a tensor by the tensor.

    What: ConcatFromSequence of a SplitToSequence along the same axis.  Parts that lost the axis may be stacked along
    another one, which a Transpose does.
    Numerics: none.
    """
    require(m.x.rank is not None, "the rank of x is unknown")
    require(m.loses_axis == bool(m.new_axis), "the parts are concatenated in another way than they were split")
    axis, to = m.axis % m.x.rank, m.joined % m.x.rank
    require(m.loses_axis or axis == to, "the parts are concatenated along another axis")
    order = [one for one in range(m.x.rank) if one != axis]
    order.insert(to, axis)
    return m.x if axis == to else g.transpose(m.x, perm=order)


def goes_into_sequence_ops(m: Pieces) -> None:
    """Refuse a sequence that has to stay, such as an output of the graph."""
    scope, names = m.match.scope, m.match.outputs
    is_left = any(name in scope.output_names for name in names)
    readers = [node for name in names for node in scope.readers(name)]
    is_known = all(node.op in READERS and node.scope is scope for node in readers)
    require(is_known and not is_left, "something else reads the sequence itself")


@rule(patterns=[cut], conditions=[goes_into_sequence_ops], target="any")
def split_to_sequence(g: Graph, m: Pieces) -> Tensor:
    """Write a SplitToSequence as a Split and a SequenceConstruct.

    What: parts of equal size, of several sizes, or one for each index.  The rules for sequences then remove the
    SequenceConstruct, so only ops for sequences may read it.
    Numerics: none.
    """
    if m.sizes is not None and m.sizes.rank == 1:
        (count,) = m.sizes.shape
        require(isinstance(count, int), "the number of parts is unknown")
        require(g.opset > 12 or m.sizes.is_constant, "below opset 13 the sizes of a Split are fixed")
        sizes = m.sizes.values.astype(np.int64) if m.sizes.is_constant else g.in_dtype(m.sizes, np.dtype(np.int64))
        return g.sequence_construct(*g.split(m.x, sizes, axis=m.axis, outputs=count))
    size: Any = None if m.x.rank is None else m.x.shape[m.axis]
    require(isinstance(size, int) and size > 0, "the size of the axis is not fixed, or 0")
    if m.loses_axis:
        return g.sequence_construct(*(g.gather(m.x, np.array(place), axis=m.axis) for place in range(size)))
    widths = [min(m.step, size - start) for start in range(0, size, m.step)]
    whole = [m.x] if len(widths) == 1 else g.split(m.x, widths, axis=m.axis, outputs=len(widths))
    return g.sequence_construct(*whole)
