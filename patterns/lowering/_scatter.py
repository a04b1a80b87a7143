"""Patterns of scatter ops with a reduction."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require


class ScatterReduction(Captures):
    """The inputs and attributes of a scatter op."""

    x: Tensor
    indices: Tensor
    updates: Tensor
    axis: int = 0
    reduction: str

    def whole_axis(self) -> int:
        """Return the axis of the scatter, counted from the front.  The indices must cover all other axes."""
        require(self.x.rank is not None and self.indices.rank is not None, "a rank is unknown")
        axis: int = self.axis % self.x.rank
        others = [(self.x.shape[at], self.indices.shape[at]) for at in range(self.x.rank) if at != axis]
        require(all(one == other for one, other in others), "the indices must cover all other axes")
        return axis


def by_elements(g: Graph, m: ScatterReduction) -> Tensor:
    """ScatterElements."""
    return g.scatter_elements(m.x, m.indices, m.updates, axis=m.axis, reduction=m.reduction)


def axis_size(g: Graph, x: Tensor, axis: int) -> Any:
    """Return the size of an axis, as a tensor if it is dynamic."""
    size = x.shape[axis]
    return size if isinstance(size, int) else g.gather(g.shape(x), np.array(axis))


def nonnegative_indices(g: Graph, indices: Tensor, size: Any) -> Tensor:
    """Return indices that count from the front."""
    wide = g.cast(indices, to="int64")
    return g.where(g.less(wide, np.array(0, np.int64)), g.add(wide, size), wide)
