"""Where-conditions that keep or replace elements, NaN guards, weights, and masks whose axes are merged."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from surgeon import Captures, Graph, Tensor
from .axes import is_same_size


class WhereMask(Captures):
    """A condition: kept, for numbers to stay, or hidden, for them not to."""

    kept: Tensor | Any = None
    hidden: Tensor | Any = None

    @property
    def condition(self) -> tuple[Tensor, bool]:
        """The condition, and whether it holds for the numbers that stay; else for those that do not."""
        return (self.hidden, False) if self.kept is None else (self.kept, True)

    def under(self, condition: Tensor) -> Self:
        """The same with another condition."""
        return self.but(hidden=condition) if self.kept is None else self.but(kept=condition)


def where_masked(g: Graph, m: WhereMask, x: Any, low: Any) -> Tensor:
    """x, and another number in the place of some."""
    return g.any_of(g.where(m.kept, x, low), g.where(m.hidden, low, x))


class SoftmaxWeights(Captures):
    """Scores whose softmax is taken.  guarded: the weights, if NaN becomes 0.  narrow: the dtype they are cast to."""

    scores: Tensor
    guarded: Tensor | Any = None
    narrow: int | Any = None


def softmax_weights(g: Graph, m: SoftmaxWeights) -> Tensor:
    """softmax(scores), perhaps without NaN, perhaps in another dtype."""
    soft = m.guarded = g.softmax(m.scores, axis=-1)
    return g.optional(g.cast(g.any_of(nan_guarded(g, m.guarded), soft), to=m.narrow))


def nan_guarded(g: Graph, weights: Tensor) -> Tensor:
    """Weights with 0 in the place of NaN, perhaps as torch's nan_to_num has it: they are never infinite."""
    plain, found = g.nan_to_zero(weights), g.isinf(weights)
    below = g.where(g.and_(g.less(weights, 0.0), found), g.any_number(), plain)
    return g.any_of(plain, g.where(g.and_(g.greater(weights, 0.0), found), g.any_number(), below))


def with_merged_batch_axes(g: Graph, mask: Tensor, rank: int, merged: Sequence[Any], counts: Sequence[Any]) -> Tensor:
    """A mask for scores of so many axes, of which the first two are one now.

    merged, counts: the sizes of these two, and numbers or tensors that hold them, to which a mask is broadcast where it
    may be smaller.
    """
    sizes = (*[1] * (rank - mask.rank), *mask.shape)
    if sizes[:2] == (1, 1):
        return g.squeeze(mask, [0]) if mask.rank == rank else mask
    wide = mask if mask.rank == rank else g.unsqueeze(mask, [0])
    are_whole = [is_same_size(size, whole) for size, whole in zip(sizes, merged, strict=False)]
    if not all(are_whole):
        ahead = [1 if is_whole else count for is_whole, count in zip(are_whole, counts, strict=True)]
        wide = g.spread(wide, [*ahead, *[1] * (rank - 2)])
    if all(isinstance(size, int) for size in sizes[2:]):
        return g.reshape(wide, [-1, *sizes[2:]])
    sides = [g.size_of(wide, axis) for axis in range(2, rank)]
    return g.reshape(wide, g.concat(np.array([-1]), *sides, axis=0))
