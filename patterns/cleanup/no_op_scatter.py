"""Assignments to all elements of a tensor."""

from surgeon import Graph, Tensor, require, rule


def assigned(g: Graph, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """x[indices] = updates."""
    return g.scatter_nd(x, indices, updates)


def goes_everywhere(x: Tensor, indices: Tensor, updates: Tensor) -> None:
    """Require that every element of x is replaced, in order."""
    sizes, index = updates.shape, indices.index
    require(bool(sizes) and sizes == x.shape, "the updates must be known to have the shape of the whole tensor")
    require(index is not None, "the indices must be constants or ranges")
    depth = len(index)
    require(indices.shape == (*sizes[:depth], depth), "the updates must be known to have the shape of the whole tensor")
    for axis, step in enumerate(index):
        along = tuple(int(place == axis and size != 1) for place, size in enumerate(sizes[:depth]))
        require(step.offset == 0 and step.strides == along, "the indices must cover all positions in order")


@rule(patterns=[assigned], conditions=[goes_everywhere], target="any")
def no_op_scatter(g: Graph, updates: Tensor) -> Tensor:
    """Replace an assignment to a whole tensor by the assigned values.

    What: ScatterND over each index in order, as TorchScript exports x[:] = y, with indices that are constants or follow
    from a Range over the size of an axis.
    Numerics: none.
    """
    return updates
