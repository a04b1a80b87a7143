"""Indices that are split and gather parts of the same tensor, which are concatenated in order."""

from collections.abc import Callable
from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule


class SplitIndices(Captures):
    """A tensor, the indices and the axes: of the Gathers, of the Split, and of the Concat."""

    x: Tensor
    indices: Tensor
    sizes: Tensor | Any = None
    axis: int = 0
    split: int = 0
    joined: int


def gathers(count: int) -> Callable[[Graph, SplitIndices], Tensor]:
    """Return the pattern for so many parts."""

    def pattern(g: Graph, m: SplitIndices) -> Tensor:
        parts = g.split(m.indices, m.sizes, axis=m.split, outputs=count)
        return g.concat(*(g.gather(m.x, part, axis=m.axis) for part in parts), axis=m.joined)

    pattern.__doc__ = f"A Concat of the Gathers of {count} parts."
    return pattern


@rule(patterns=[gathers(count) for count in range(2, 9)], target="any")
def gather_of_parts(g: Graph, m: SplitIndices) -> Tensor:
    """Gather with all indices at once instead of one part after the other.

    What: Concat of the Gathers of all parts of a Split, along the axis of the parts.
    Numerics: none.
    """
    require(m.x.rank is not None and m.indices.rank is not None, "the rank of the tensor or of the indices is unknown")
    along = m.axis % m.x.rank + m.split % m.indices.rank
    require(m.joined % (m.x.rank + m.indices.rank - 1) == along, "the parts are concatenated along another axis")
    return g.gather(m.x, m.indices, axis=m.axis)
