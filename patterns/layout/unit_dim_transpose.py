"""Transposes that move only axes of size one, next to a Reshape that adds or removes such axes."""

from surgeon import Captures, Graph, Tensor, dims, require, rule


class UnitDimTranspose(Captures):
    """x, the result of the first node (middle), the permutation of the Transpose, and the result y."""

    x: Tensor = dims("...")
    middle: Tensor
    y: Tensor = dims("...")
    perm: list[int]


def taken(g: Graph, m: UnitDimTranspose) -> Tensor:
    """A Reshape of a Transpose of x."""
    m.middle = g.transpose(m.x, perm=m.perm)
    m.y = g.reshaped(m.middle)
    return m.y


def added(g: Graph, m: UnitDimTranspose) -> Tensor:
    """A Transpose of a Reshape of x."""
    m.middle = g.reshaped(m.x)
    m.y = g.transpose(m.middle, perm=m.perm)
    return m.y


@rule(patterns=[taken, added], target="any", last=True)
def unit_dim_transpose(g: Graph, m: UnitDimTranspose) -> Tensor:
    """Write a Transpose that moves only axes of size one, and the Reshape next to it, as Squeeze or Unsqueeze.

    What: the single head of keys and values of multi-query attention, which is moved like several heads.
    Numerics: none.
    """
    less, more = sorted((m.x, m.y), key=lambda x: x.rank)
    turned = m.x if m.middle.rank == m.x.rank else m.middle
    require(more.rank == len(m.perm) > less.rank, "the Reshape must add or remove axes")
    wide = [axis for axis in m.perm if turned.shape[axis] != 1]
    require(wide == sorted(wide), "it changes the order of axes with more than one element")
    ones = [axis for axis, size in enumerate(more.shape) if size == 1][: more.rank - less.rank]
    kept = tuple(size for axis, size in enumerate(more.shape) if axis not in ones)
    require(kept == tuple(less.shape), "the Reshape must add or remove only axes of size one")
    return g.squeeze(m.x, ones) if less is m.y else g.unsqueeze(m.x, ones)
