"""A Transpose of the last two axes between Reshapes that merge and split the axes before them."""

from typing import Any

from surgeon import Graph, Tensor, require, rule


def between_reshapes(g: Graph, x: Tensor, first: Any, zero: int, shape: Any, last_zero: int) -> Tensor:
    """Reshape to three axes, Transpose of the last two, Reshape back to more axes."""
    merged = g.reshape(x, first, allowzero=zero)
    swapped = g.transpose(g.capture("merged", merged), perm=[0, 2, 1])
    return g.capture("y", g.reshape(swapped, shape, allowzero=last_zero))


@rule(patterns=[between_reshapes], target="any")
def transpose_between_reshapes(g: Graph, x: Tensor, merged: Tensor, y: Tensor) -> Tensor:
    """Merge a Transpose of the last two axes with the Reshapes around it, which merge and split the axes before them.

    What: Reshape(Transpose(Reshape(x, [·, a, b]), [0, 2, 1]), [..., b, a]).  Some exporters write xᵀ of every matrix in
    a batch like this.  If the sizes are fixed, the first Reshape may also have replaced an earlier one.
    Numerics: none.
    """
    require(x.shape is not None and y.shape is not None and merged.shape is not None, "a shape is unknown")
    require(y.rank > 3, "the result must have at least four axes")
    before = (*y.shape[:-2], y.shape[-1], y.shape[-2])
    if not all(isinstance(size, int) for size in before):
        require(x.rank == y.rank, "the result must have as many axes as the input")
    if x.rank == y.rank:
        require(x.shape[-2:] == merged.shape[-2:], "the first Reshape changes the last two axes")
        require(x.shape == before, "the result must swap only the last two axes")
    else:
        require(merged.shape[-2:] == before[-2:], "the last Reshape changes the last two axes")
        x = g.reshape(x, list(before))
    axes = list(range(len(before)))
    return g.transpose(x, perm=[*axes[:-2], axes[-1], axes[-2]])
