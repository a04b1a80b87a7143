"""What is assigned to all of a tensor."""

from functools import partial
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
    def by_axis(self) -> list[Any]:
        """The places along each axis, as far as there are any."""
        found = (self.by_axis_0, self.by_axis_1, self.by_axis_2, self.by_axis_3, self.by_axis_4)
        return [places for places in found if places is not None]


def assigned(g: Graph, m: Assigned) -> Tensor:
    """x[indices] = updates."""
    return g.scatter_nd(m.x, m.indices, m.updates)


def assigned_by_axes(g: Graph, m: Assigned) -> Tensor:
    """The same, where an index is joined of one along each axis."""
    along = (m.by_axis_0, m.by_axis_1, m.by_axis_2, m.by_axis_3, m.by_axis_4)
    spread = [g.any_of(g.unsqueeze(g.expand(places, g.any_tensor()), [-1]), places) for places in along]
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
    spread = [of_axis[..., None] for of_axis in np.broadcast_arrays(*axes)]
    wanted = zip(axes, spread, strict=True) if m.indices is None else [(np.concatenate(spread, -1),)]
    in_order = all(any(map(partial(says, places), of_axis)) for places, of_axis in zip(found, wanted, strict=True))
    require(in_order, "the indices are not those of all places in order")


@rule(patterns=[assigned, assigned_by_axes], conditions=[goes_everywhere], target="any")
def no_op_scatter(g: Graph, m: Assigned) -> Tensor:
    """Let what is assigned to all of a tensor stand for it.

    What: ScatterND over each place in order, as TorchScript exports x[:] = y.
    Numerics: none.
    """
    return m.updates
