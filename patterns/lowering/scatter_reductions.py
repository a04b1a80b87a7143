"""Scatter ops with a reduction, by comparing each index with each position."""

from math import prod
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule
from ._scatter import ScatterReduction, axis_size, by_elements, nonnegative_indices

MAX_COMPARISONS = 2**24  # the number of comparisons of an index with a position
NEUTRAL = {"add": 0, "mul": 1, "max": -np.inf, "min": np.inf}
NANS = {
    "non_finite": "for NaN and a number that is scattered later, ONNX Runtime returns the number as maximum or minimum"
}


def require_known(m: ScatterReduction) -> None:
    """Require a reduction, and tensors of known rank and dtype."""
    require(m.reduction in NEUTRAL, "it has no reduction")
    require(all(one.rank is not None for one in (m.x, m.indices, m.updates)), "a rank is unknown")
    require(m.x.dtype is not None, "the dtype of x is unknown")


def require_few(*sizes: Any) -> None:
    """Refuse too many comparisons, if their number is known."""
    fixed = all(isinstance(size, int) for size in sizes)
    require(not fixed or prod(sizes) <= MAX_COMPARISONS, "there are too many indices and positions to compare")


def up_to(g: Graph, size: Any) -> Any:
    """Return all integers from 0 to a size that is fixed, or that is in a tensor."""
    return np.arange(size) if isinstance(size, int) else g.range(np.array(0), size, np.array(1))


def reduced(g: Graph, m: ScatterReduction, chosen: Tensor, x: Tensor, axis: int) -> Tensor:
    """Combine the data with all updates along an axis."""
    over: Any = np.array([axis], np.int64)
    if m.reduction == "add":
        return g.add(x, g.reduce_sum(chosen, over, keepdims=0))
    if m.reduction == "mul":  # starts with the data, as the scatter does: the product of only the updates may overflow
        return g.reduce_prod(g.concat(g.unsqueeze(x, over), chosen, axis=axis), over, keepdims=0)
    if m.reduction == "max":
        return g.max(x, g.reduce_max(chosen, over, keepdims=0))
    return g.min(x, g.reduce_min(chosen, over, keepdims=0))


@rule(patterns=[by_elements], target="any", opset=16, lacking=True, dtypes="floats", differs=NANS)
def scatter_elements(g: Graph, m: ScatterReduction) -> Tensor:
    """Write a ScatterElements with a reduction as sums, products, maxima or minima along an axis.

    What: each position collects the updates with its index, if the target does not support reductions.  The rule
    compares every index with every position of its axis, also for dynamic sizes: at most 2²⁴ comparisons if their
    number is known.
    Numerics: rounding only.  The maximum and minimum of NaN and numbers are NaN.
    """
    require_known(m)
    axis = m.whole_axis()
    require_few(m.x.shape[axis], *m.indices.shape)
    size = axis_size(g, m.x, axis)
    order = [*(at for at in range(m.x.rank) if at != axis), axis]
    x, indices, updates = (g.transpose(one, perm=order) for one in (m.x, m.indices, m.updates))
    last = np.array([-1], np.int64)
    wide = nonnegative_indices(g, indices, np.array(size) if isinstance(size, int) else size)
    is_here = g.equal(g.unsqueeze(wide, last), up_to(g, size))
    chosen = g.where(is_here, g.unsqueeze(updates, last), np.array(NEUTRAL[m.reduction], m.x.dtype))
    return g.transpose(reduced(g, m, chosen, x=x, axis=-2), perm=np.argsort(order).tolist())


def by_tuples(g: Graph, m: ScatterReduction) -> Tensor:
    """ScatterND."""
    return g.scatter_nd(m.x, m.indices, m.updates, reduction=m.reduction)


@rule(patterns=[by_tuples], target="any", opset=16, lacking=True, dtypes="floats", differs=NANS)
def scatter_nd(g: Graph, m: ScatterReduction) -> Tensor:
    """Write a ScatterND with a reduction as sums, products, maxima or minima along an axis.

    What: each position collects the updates with its index, if the target does not support reductions.  The rule
    compares every index with every position, also for a dynamic first size: at most 2²⁴ comparisons if their number is
    known.
    Numerics: rounding only.  The maximum and minimum of NaN and numbers are NaN.
    """
    require_known(m)
    shape: list[Any] = list(m.x.shape)
    depth: Any = m.indices.shape[-1]
    require(isinstance(depth, int) and depth > 0, "the number of axes of an index is not fixed")
    require(all(isinstance(size, int) for size in shape[1:]), "a size other than the first is dynamic")
    require_few(*shape, *m.indices.shape[:-1])
    width = prod(shape[depth:])
    require(width > 0, "the updates are empty")
    places: Any = prod(shape[:depth]) if isinstance(shape[0], int) else g.div(g.size(m.x), np.array(width))
    sizes: Any = g.slice(g.shape(m.x), [0], [depth]) if not isinstance(shape[0], int) else np.array(shape[:depth])
    strides = np.array([prod(shape[at + 1 : depth]) for at in range(depth)], np.int64)
    flat = g.reshape(g.mul(nonnegative_indices(g, m.indices, sizes), strides), np.array([-1, depth]))
    line = g.reduce_sum(flat, np.array([1], np.int64), keepdims=1)
    is_here = g.unsqueeze(g.equal(line, up_to(g, places)), np.array([2], np.int64))
    updates = g.reshape(m.updates, np.array([-1, 1, width]))
    chosen = g.where(is_here, updates, np.array(NEUTRAL[m.reduction], m.x.dtype))
    made = reduced(g, m, chosen, x=g.reshape(m.x, np.array([-1, width])), axis=0)
    return g.reshape(made, g.shape(m.x) if not isinstance(shape[0], int) else np.array(shape))
