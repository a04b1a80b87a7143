"""Conditions for numbers to stay or to be replaced, told either way or for NaN, weights, and masks whose axes join."""

from typing import Any, Self

import numpy as np

from surgeon import Captures, Graph, Tensor


class Conditioned(Captures):
    """A condition: kept, for numbers to stay, or hidden, for them not to."""

    kept: Tensor | Any = None
    hidden: Tensor | Any = None

    @property
    def condition(self) -> tuple[Tensor, bool]:
        """The condition, and whether it holds for the numbers that stay; else for those that do not."""
        return (self.hidden, False) if self.kept is None else (self.kept, True)

    def under(self, condition: Tensor) -> Self:
        """The same with another condition in the place of its own."""
        return self.but(hidden=condition) if self.kept is None else self.but(kept=condition)


def chosen(g: Graph, m: Conditioned, x: Any, low: Any) -> Tensor:
    """x, and another number in the place of some."""
    return g.any_of(g.where(m.kept, x, low), g.where(m.hidden, low, x))


class Weights(Captures):
    """Scores whose softmax is taken.  guarded: the weights, if NaN becomes 0.  narrow: the dtype they are cast to."""

    scores: Tensor
    guarded: Tensor | Any = None
    narrow: int | Any = None


def weights(g: Graph, m: Weights) -> Tensor:
    """softmax(scores), perhaps without NaN, perhaps in another dtype."""
    soft = m.guarded = g.softmax(m.scores, axis=-1)
    return g.optional(g.cast(g.any_of(guarded(g, m.guarded), soft), to=m.narrow))


def guarded(g: Graph, weights: Tensor) -> Tensor:
    """Weights with 0 in the place of NaN, perhaps as torch's nan_to_num has it: they are never infinite."""
    plain, found = g.nan_to_zero(weights), g.isinf(weights)
    below = g.where(g.and_(g.less(weights, 0.0), found), g.any_number(), plain)
    return g.any_of(plain, g.where(g.and_(g.greater(weights, 0.0), found), g.any_number(), below))


def joined_ahead(g: Graph, mask: Tensor, rank: int, counts: tuple[Any, Any]) -> Tensor:
    """A mask for scores of so many axes, of which the first two are one now.

    counts: how many of each there are, by which a mask of one of them alone is spread.
    """
    sizes = (*[1] * (rank - mask.rank), *mask.shape)
    if sizes[:2] == (1, 1):
        return g.squeeze(mask, [0]) if mask.rank == rank else mask
    wide = mask if mask.rank == rank else g.unsqueeze(mask, [0])
    if 1 in sizes[:2]:
        ahead = [count if size == 1 else 1 for size, count in zip(sizes, counts, strict=False)]
        wide = g.spread(wide, [*ahead, *[1] * (rank - 2)])
    if all(isinstance(size, int) for size in sizes[2:]):
        return g.reshape(wide, [-1, *sizes[2:]])
    sides = [g.size_of(wide, axis) for axis in range(2, rank)]
    return g.reshape(wide, g.concat(np.array([-1]), *sides, axis=0))
