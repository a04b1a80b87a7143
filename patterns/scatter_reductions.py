"""What is scattered and added, multiplied, or compared with what is there: by comparing each index with each place."""

from math import prod
from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule

MOST = 2**24  # comparisons
NEUTRAL = {"add": 0, "mul": 1, "max": -np.inf, "min": np.inf}


class Scattered(Captures):
    """What is there, where something is put, and how."""

    x: Tensor
    indices: Tensor
    updates: Tensor
    axis: int = 0
    reduction: str

    def require_sizes(self) -> None:
        """Refuse sizes that are free, and values of no float."""
        require(self.reduction in NEUTRAL, "it has no reduction")
        for one in (self.x, self.indices, self.updates):
            require(one.rank is not None and all(isinstance(size, int) for size in one.shape), "a size is free")


def reduced(g: Graph, m: Scattered, chosen: Tensor, x: Tensor, axis: int) -> Tensor:
    """What is there, with all that is put there along an axis."""
    over: Any = np.array([axis], np.int64)
    if m.reduction == "add":
        return g.add(x, g.reduce_sum(chosen, over, keepdims=0))
    if m.reduction == "mul":
        return g.mul(x, g.reduce_prod(chosen, over, keepdims=0))
    if m.reduction == "max":
        return g.max(x, g.reduce_max(chosen, over, keepdims=0))
    return g.min(x, g.reduce_min(chosen, over, keepdims=0))


def counted(g: Graph, indices: Tensor, size: Any) -> Tensor:
    """Indices counted from the front."""
    wide = g.cast(indices, to="int64")
    return g.where(g.less(wide, np.array(0, np.int64)), g.add(wide, size), wide)


def by_elements(g: Graph, m: Scattered) -> Tensor:
    """ScatterElements."""
    return g.scatter_elements(m.x, m.indices, m.updates, axis=m.axis, reduction=m.reduction)


@rule(patterns=[by_elements], target="any", opset=18, lacking=True, dtypes="floats")
def scatter_elements(g: Graph, m: Scattered) -> Tensor:
    """Write a ScatterElements with a reduction as sums, products, largest or smallest numbers along an axis.

    What: each place takes what has its index, where the target scatters without reductions.  It compares every index
    with every place of its axis.
    Numerics: rounding only.
    """
    m.require_sizes()
    axis, rank = m.axis % m.x.rank, m.x.rank
    others = [(m.x.shape[at], m.indices.shape[at]) for at in range(rank) if at != axis]
    require(all(one == other for one, other in others), "the indices do not go over all other axes")
    size = m.x.shape[axis]
    require(size * prod(m.indices.shape) <= MOST, "there are too many indices and places to compare")
    order = [*(at for at in range(rank) if at != axis), axis]
    x, indices, updates = (g.transpose(one, perm=order) for one in (m.x, m.indices, m.updates))
    last = np.array([-1], np.int64)
    is_here = g.equal(g.unsqueeze(counted(g, indices, np.array(size, np.int64)), last), np.arange(size))
    chosen = g.where(is_here, g.unsqueeze(updates, last), np.array(NEUTRAL[m.reduction], m.x.dtype))
    return g.transpose(reduced(g, m, chosen, x, -2), perm=np.argsort(order).tolist())


def by_tuples(g: Graph, m: Scattered) -> Tensor:
    """ScatterND."""
    return g.scatter_nd(m.x, m.indices, m.updates, reduction=m.reduction)


@rule(patterns=[by_tuples], target="any", opset=16, lacking=True, dtypes="floats")
def scatter_nd(g: Graph, m: Scattered) -> Tensor:
    """Write a ScatterND with a reduction as sums, products, largest or smallest numbers along an axis.

    What: each place takes what has its index, where the target scatters without reductions.  It compares every index
    with every place.
    Numerics: rounding only.
    """
    m.require_sizes()
    depth, shape = m.indices.shape[-1], list(m.x.shape)
    places, width, count = prod(shape[:depth]), prod(shape[depth:]), prod(m.indices.shape[:-1])
    require(places * width * count <= MOST, "there are too many indices and places to compare")
    sizes = np.array(shape[:depth], np.int64)
    strides = np.array([prod(shape[at + 1 : depth]) for at in range(depth)], np.int64)
    flat = g.reshape(g.mul(counted(g, m.indices, sizes), strides), np.array([count, depth]))
    line = g.reduce_sum(flat, np.array([1], np.int64), keepdims=1)
    is_here = g.unsqueeze(g.equal(line, np.arange(places)), np.array([2], np.int64))
    updates = g.reshape(m.updates, np.array([count, 1, width]))
    chosen = g.where(is_here, updates, np.array(NEUTRAL[m.reduction], m.x.dtype))
    made = reduced(g, m, chosen, g.reshape(m.x, np.array([places, width])), 0)
    return g.reshape(made, np.array(shape))
