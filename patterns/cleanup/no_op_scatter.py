"""What is assigned to all of a tensor."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule


class Assigned(Captures):
    """What is put where; by_axis: the places along each axis, spread over the others or to be."""

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
        """The places along each axis; None behind the last."""
        return self.by_axis_0, self.by_axis_1, self.by_axis_2, self.by_axis_3, self.by_axis_4

    @property
    def by_axis(self) -> list[Any]:
        """The places along each axis, as far as there are any."""
        return [places for places in self.along if places is not None]


def assigned(g: Graph, m: Assigned) -> Tensor:
    """x[indices] = updates."""
    return g.scatter_nd(m.x, m.indices, m.updates)


def assigned_by_axes(g: Graph, m: Assigned) -> Tensor:
    """The same, where an index is joined of one along each axis."""
    spread = [g.any_of(g.unsqueeze(g.expand(places, g.any_tensor()), [-1]), places) for places in m.along]
    joined = g.any_of(*(g.concat(*spread[:depth], axis=-1) for depth in range(2, len(spread) + 1)))
    return g.scatter_nd(m.x, g.shared(joined), m.updates)


def says(places: Tensor, wanted: Any) -> bool:
    """Whether a constant has these numbers, but for axes of one before."""
    return np.array_equal(np.array(places.values, ndmin=wanted.ndim), wanted)


def goes_everywhere(m: Assigned) -> None:
    """Each number of x is replaced, in order."""
    sizes = m.updates.shape
    is_whole = bool(sizes) and sizes == m.x.shape and all(isinstance(size, int) for size in sizes)
    require(is_whole, "what is assigned is not known to have the sizes of all that is there")
    found = [m.indices] if m.indices is not None else m.by_axis
    require(all(places.is_constant for places in found), "the indices are no constants")
    depth = m.indices.shape[-1] if m.indices is not None else len(found)
    axes = np.indices(sizes[:depth], sparse=True)
    grid = [of_axis[..., None] for of_axis in np.broadcast_arrays(*axes)]
    if m.indices is not None:
        in_order = says(m.indices, np.concatenate(grid, -1))
    else:
        pairs = zip(m.by_axis, axes, grid, strict=True)
        in_order = all(says(places, to_spread) or says(places, spread) for places, to_spread, spread in pairs)
    require(in_order, "the indices are not those of all places in order")


@rule(patterns=[assigned, assigned_by_axes], conditions=[goes_everywhere], target="any")
def no_op_scatter(g: Graph, m: Assigned) -> Tensor:
    """Let what is assigned to all of a tensor stand for it.

    What: ScatterND over each place in order, as TorchScript exports x[:] = y.
    Numerics: none.
    """
    return m.updates
