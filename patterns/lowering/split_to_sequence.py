"""Tensors split into sequences of known length."""

from itertools import pairwise

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule


class Pieces(Captures):
    """A tensor, the sizes of its parts, and whether the parts keep the axis."""

    x: Tensor
    sizes: Constant | None = None
    axis: int = 0
    keepdims: int = 1


def cut(g: Graph, m: Pieces) -> Tensor:
    """SplitToSequence."""
    return g.split_to_sequence(m.x, m.sizes, axis=m.axis, keepdims=m.keepdims)


@rule(patterns=[cut], target="any", lacking=True)
def split_to_sequence(g: Graph, m: Pieces) -> Tensor:
    """Write a SplitToSequence as Slices and a SequenceConstruct.

    What: parts of equal size, of several sizes, or one for each index, if the target does not support sequences.  The
    rules for sequences then remove the sequence.
    Numerics: none.
    """
    require(m.x.rank is not None, "the rank of x is unknown")
    axis = m.axis % m.x.rank
    size = m.x.shape[axis]
    require(isinstance(size, int) and size > 0, "the size of the axis is not fixed, or 0")
    if m.sizes is not None and m.sizes.values.ndim:
        ends = np.cumsum([0, *m.sizes.values.tolist()]).tolist()
    else:
        step = 1 if m.sizes is None else int(m.sizes.values)
        ends = [*range(0, size, step), size]
    parts = [g.slice(m.x, [start], [stop], [axis]) for start, stop in pairwise(ends)]
    if m.sizes is None and not m.keepdims:
        parts = [g.squeeze(one, np.array([axis])) for one in parts]
    return g.sequence_construct(*parts)
