"""The two parts of a head that a rotary embedding rotates: halves, or neighbours."""

from math import prod
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require

HALF_SPLIT, INTERLEAVED = -2, -1  # the axis of two after a head is split to [.., 2, half] or [.., half, 2]


class RotaryInput(Captures):
    """Heads x, before or after the rows. base: the tensor from which they are split, if the parts are cut from it.

    A batch of one may have no axis. gone, added: axes of one that x lacks or has in addition to base. parts: the heads
    in two parts, if x is None. wide: the dtype to which x is cast.

    cut_at, axis: the layout of the two parts of a head in the input and in the result.
    """

    cut_at = axis = HALF_SPLIT
    x: Tensor | Any = dims("batch _ _ _", "_ _ _", default=None)
    base: Tensor | Any = None
    gone: list[int] | None = None
    added: list[int] | None = None
    parts: Tensor | Any = dims("_ _ _ _ _", "_ _ _ _ 1 2", default=None)
    wide: int | Any = None

    @property
    def shape(self) -> Any:
        """The shape of the heads, without an axis for a batch of one if they have none."""
        return sizes_of(self.parts if self.x is None else self.x)

    @property
    def sizes(self) -> Any:
        """The same with a batch axis: batch, heads and rows in either order, columns."""
        return self.shape if len(self.shape) == 4 else (1, *self.shape)


def sizes_of(heads: Tensor) -> Any:
    """Return the shape of heads, also if they are in two parts."""
    require(heads.shape is not None, "the shape of the heads is unknown")
    return heads.shape if heads.rank < 5 else (*heads.shape[:3], prod(heads.shape[3:]))


def is_in_two(parts: Tensor, heads: Tensor, axis: int) -> None:
    """Require that the last axis is split into two halves, or into pairs of neighbours."""
    *ahead, columns = sizes_of(heads)
    wanted = (*ahead, *((2, columns // 2) if axis == HALF_SPLIT else (columns // 2, 2)))
    require(parts.shape == wanted, "the last axis must be split into pairs")


def is_half(part: Tensor, heads: Tensor) -> None:
    """Require a part with half of the last axis and with the other axes of the heads."""
    *ahead, columns = sizes_of(heads)
    require(part.shape == (*ahead, columns // 2), "the part must have every other number of the last axis")


def is_whole(y: Tensor, heads: Tensor) -> None:
    """Require that the joined parts have the shape of the heads."""
    require(y.shape == sizes_of(heads), "the pairs are joined to another shape")


def is_swapped(_: Tensor, places: Tensor, heads: Tensor, axis: int) -> None:
    """Require that the indices swap the two parts."""
    columns = sizes_of(heads)[-1]
    require(isinstance(columns, int), "the size of a head is unknown")
    grid = np.arange(columns).reshape((2, -1) if axis == HALF_SPLIT else (-1, 2))
    wanted = np.flip(grid, 0 if axis == HALF_SPLIT else 1).reshape(-1)
    is_told = places.is_constant and np.array_equal(places.values, wanted)
    require(is_told, "the indices must swap the two parts")


class HeadPairs:
    """Patterns of heads in two parts: of x, of the tensor from which x is split, or of that tensor without an x."""

    def __init__(self, g: Graph, m: RotaryInput, of_base: bool, has_x: bool = True) -> None:
        if of_base and has_x:
            m.x = g.shared(g.any_of(g.reshaped(m.base), g.squeeze(m.base, m.gone), g.unsqueeze(m.base, m.added)))
        parts = g.named(g.reshaped(m.base if of_base else m.x))
        if not has_x:
            m.parts = parts
            parts = m.parts
        self.g, self.axis, self.heads = g, m.axis, m.x if has_x else m.parts
        in_two = g.such_that(parts, is_in_two, self.heads, m.cut_at)
        self.kept = g.cut(in_two, 2, m.cut_at)
        self.two = []
        for at in (0, 1):
            forms = [g.gather(in_two, at, axis=m.cut_at), g.squeeze(self.kept[at], [m.cut_at])]
            if has_x:
                every_other = g.slice(m.x, [at], g.any_tensor(), [-1], [2])
                forms.insert(0, g.cut(m.x, 2, -1)[at] if m.cut_at == HALF_SPLIT else every_other)
            self.two.append(g.such_that(g.any_of(*forms), is_half, self.heads))

    def together(self, first: Tensor, second: Tensor, *lifted: Tensor) -> Tensor:
        """Join two parts in the last axis. lifted: both parts with an axis for stacking."""
        g = self.g
        stacked = g.such_that(self.stacked(first, second, *lifted), is_whole, self.heads)
        return g.any_of(g.concat(first, second, axis=-1), stacked) if self.axis == HALF_SPLIT else stacked

    def stacked(self, first: Tensor, second: Tensor, *lifted: Tensor) -> Tensor:
        """Stack two parts, with any shape afterwards.  The shape of the pairs may have other consumers."""
        g, own = self.g, [self.g.unsqueeze(part, [self.axis]) for part in (first, second)]
        return self.joined(*(g.any_of(*forms) for forms in zip(own, lifted or own, strict=True)))

    def joined(self, first: Tensor, second: Tensor) -> Tensor:
        """Join two parts that already have the axis for stacking."""
        return self.g.reshaped(self.g.shared(self.g.concat(first, second, axis=self.axis)))

    def turned(self) -> tuple[Tensor, Tensor]:
        """The second part, negated, before the first.  And backwards: the second before the first, negated."""
        g, (a, b), (first, second) = self.g, self.two, self.kept
        return self.together(g.neg(b), a, g.neg(second), first), self.together(b, g.neg(a), second, g.neg(first))

    def swapped(self) -> Tensor:
        """The second part before the first, also by the indices of a Gather."""
        g, places = self.g, self.g.any_tensor()
        taken = g.such_that(g.gather(self.heads, places, axis=-1), is_swapped, places, self.heads, self.axis)
        return g.any_of(self.together(*self.two[::-1], *self.kept[::-1]), taken)
