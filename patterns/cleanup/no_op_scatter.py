"""Assignments to all elements of a tensor."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule


class Assigned(Captures):
    """The inputs of a ScatterND.  by_axis: the indices along each axis, expanded over the other axes or not."""

    x: Tensor
    updates: Tensor
    indices: Tensor | Any = None
    by_axis_0: Tensor | Any = None
    by_axis_1: Tensor | Any = None
    by_axis_2: Tensor | Any = None
    by_axis_3: Tensor | Any = None
    by_axis_4: Tensor | Any = None

    @property
    def along(self) -> tuple[Any, ...]:
        """The indices along each axis, or None after the last axis."""
        return self.by_axis_0, self.by_axis_1, self.by_axis_2, self.by_axis_3, self.by_axis_4

    @property
    def by_axis(self) -> list[Any]:
        """The indices along each axis, as far as there are any."""
        return [places for places in self.along if places is not None]


def assigned(g: Graph, m: Assigned) -> Tensor:
    """x[indices] = updates."""
    return g.scatter_nd(m.x, m.indices, m.updates)


def assigned_by_axes(g: Graph, m: Assigned) -> Tensor:
    """The same.  An index is concatenated from one index along each axis."""
    spread = [g.any_of(g.unsqueeze(g.expand(places, g.any_tensor()), [-1]), places) for places in m.along]
    joined = g.any_of(*(g.concat(*spread[:depth], axis=-1) for depth in range(2, len(spread) + 1)))
    return g.scatter_nd(m.x, g.shared(joined), m.updates)


def says(places: Tensor, wanted: Any) -> bool:
    """Return whether a constant has these numbers, apart from leading axes of one."""
    return np.array_equal(np.array(places.values, ndmin=wanted.ndim), wanted)


def goes_everywhere(m: Assigned) -> None:
    """Require that every element of x is replaced, in order."""
    sizes = m.updates.shape
    is_whole = bool(sizes) and sizes == m.x.shape and all(isinstance(size, int) for size in sizes)
    require(is_whole, "the updates must be known to have the shape of the whole tensor")
    found = [m.indices] if m.indices is not None else m.by_axis
    require(all(places.is_constant for places in found), "the indices must be constant")
    depth = m.indices.shape[-1] if m.indices is not None else len(found)
    axes = np.indices(sizes[:depth], sparse=True)
    grid = [of_axis[..., None] for of_axis in np.broadcast_arrays(*axes)]
    if m.indices is not None:
        in_order = says(m.indices, np.concatenate(grid, -1))
    else:
        pairs = zip(m.by_axis, axes, grid, strict=True)
        in_order = all(says(places, to_spread) or says(places, spread) for places, to_spread, spread in pairs)
    require(in_order, "the indices must cover all positions in order")


@rule(patterns=[assigned, assigned_by_axes], conditions=[goes_everywhere], target="any")
def no_op_scatter(g: Graph, m: Assigned) -> Tensor:
    """Replace an assignment to a whole tensor by the assigned values.

    What: ScatterND over each index in order, as TorchScript exports x[:] = y.
    Numerics: none.
    """
    return m.updates
