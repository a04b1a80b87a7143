"""Transposes next to a Reshape that adds, removes or moves axes of size one."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule


class UnitDimTranspose(Captures):
    """x, the permutation of the Transpose, and the result y.

    The tensor in between is moved if the Transpose is first, or lifted if the Reshape is.
    """

    x: Tensor = dims("...")
    moved: Tensor | Any = None
    lifted: Tensor | Any = None
    y: Tensor = dims("...")
    perm: list[int]


def taken(g: Graph, m: UnitDimTranspose) -> Tensor:
    """A Reshape of a Transpose of x."""
    m.moved = g.transpose(m.x, perm=m.perm)
    m.y = g.reshaped(m.moved)
    return m.y


def added(g: Graph, m: UnitDimTranspose) -> Tensor:
    """A Transpose of a Reshape of x."""
    m.lifted = g.reshaped(m.x)
    m.y = g.transpose(m.lifted, perm=m.perm)
    return m.y


def wide_axes(x: Tensor) -> list[int]:
    """Return the axes that may have more than one element."""
    require(x.shape is not None, "a shape is unknown")
    return [axis for axis, size in enumerate(x.shape) if size != 1]


@rule(patterns=[taken, added], target="any", last=True)
def unit_dim_transpose(g: Graph, m: UnitDimTranspose) -> Tensor:
    """Write a Transpose and a Reshape next to it that adds, removes or moves axes of size one as one node.

    What: the single head of keys and values of multi-query attention, which is moved like several heads, becomes a
    Squeeze or Unsqueeze.  If the Reshape moves axes, both become a Transpose, or nothing if they restore the shape.
    Numerics: none.
    """
    turned = m.x if m.lifted is None else m.lifted
    sides = (m.moved, m.y) if m.lifted is None else (m.x, m.lifted)
    kept, sizes = wide_axes(turned), [[side.shape[axis] for axis in wide_axes(side)] for side in sides]
    require(sizes[0] == sizes[1], "the Reshape must add, remove or move only axes of size one")
    sources = wide_axes(m.x)
    wide = [sources[kept.index(axis)] for axis in m.perm if axis in kept]
    if m.x.rank == m.y.rank:
        order, rest = iter(wide), (axis for axis in range(m.x.rank) if axis not in wide)
        perm = [next(rest if size == 1 else order) for size in m.y.shape]
        return m.x if wide == sources and m.x.shape == m.y.shape else g.transpose(m.x, perm=perm)
    require(wide == sources, "it changes the order of axes with more than one element")
    less, more = sorted((m.x, m.y), key=lambda x: x.rank)
    ones = [axis for axis, size in enumerate(more.shape) if size == 1][: more.rank - less.rank]
    fits = tuple(size for axis, size in enumerate(more.shape) if axis not in ones) == tuple(less.shape)
    require(fits, "the Reshape must add, remove or move only axes of size one")
    return g.squeeze(m.x, ones) if less is m.y else g.unsqueeze(m.x, ones)
