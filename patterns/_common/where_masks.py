"""Where-conditions that keep or replace elements, NaN guards, weights, and masks whose axes are merged."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from surgeon import Captures, Graph, Tensor
from .axes import is_same_size


class WhereMask(Captures):
    """The condition of a Where mask.

    kept: true for the numbers that stay. hidden: true for the numbers that are replaced.
    """

    kept: Tensor | Any = None
    hidden: Tensor | Any = None

    @property
    def condition(self) -> tuple[Tensor, bool]:
        """The condition, and whether it is true for the numbers that stay or for the replaced numbers."""
        return (self.hidden, False) if self.kept is None else (self.kept, True)

    def under(self, condition: Tensor) -> Self:
        """Return the same mask with another condition."""
        return self.but(hidden=condition) if self.kept is None else self.but(kept=condition)


def where_masked(g: Graph, m: WhereMask, x: Any, low: Any) -> Tensor:
    """Replace some numbers of x by another number."""
    return g.any_of(g.where(m.kept, x, low), g.where(m.hidden, low, x))


class SoftmaxWeights(Captures):
    """Scores before a softmax.

    guarded: the weights if NaN becomes 0. narrow: the dtype to which the weights are cast.
    """

    scores: Tensor
    guarded: Tensor | Any = None
    narrow: int | Any = None


def softmax_weights(g: Graph, m: SoftmaxWeights) -> Tensor:
    """Return softmax(scores), optionally with 0 for NaN, optionally in another dtype."""
    soft = m.guarded = g.softmax(m.scores, axis=-1)
    return g.optional(g.cast(g.any_of(nan_guarded(g, m.guarded), soft), to=m.narrow))


def nan_guarded(g: Graph, weights: Tensor) -> Tensor:
    """Replace NaN in weights by 0, optionally as torch's nan_to_num does.  Weights are never infinite."""
    plain, found = g.nan_to_zero(weights), g.isinf(weights)
    below = g.where(g.and_(g.less(weights, 0.0), found), g.any_number(), plain)
    return g.any_of(plain, g.where(g.and_(g.greater(weights, 0.0), found), g.any_number(), below))


def with_merged_batch_axes(g: Graph, mask: Tensor, rank: int, merged: Sequence[Any], counts: Sequence[Any]) -> Tensor:
    """Return a mask for scores of rank `rank`, after their first two axes were merged into one.

    merged, counts: the sizes of these two axes, and numbers or tensors that contain the sizes.  The mask is broadcast
    to them if it may be smaller.
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
