"""Transposes that move nothing but axes of one element, beside a Reshape that adds or takes these."""

from surgeon import Captures, Graph, Tensor, dims, require, rule


class UnitDimTranspose(Captures):
    """x, that with its axes in another order by perm or the shape before it (middle), and y, what is made of it."""

    x: Tensor = dims("...")
    middle: Tensor
    y: Tensor = dims("...")
    perm: list[int]


def taken(g: Graph, m: UnitDimTranspose) -> Tensor:
    """x, its axes moved, in another shape."""
    m.middle = g.transpose(m.x, perm=m.perm)
    m.y = g.reshaped(m.middle)
    return m.y


def added(g: Graph, m: UnitDimTranspose) -> Tensor:
    """x in another shape, the axes of which are moved."""
    m.middle = g.reshaped(m.x)
    m.y = g.transpose(m.middle, perm=m.perm)
    return m.y


@rule(patterns=[taken, added], target="any", last=True)
def unit_dim_transpose(g: Graph, m: UnitDimTranspose) -> Tensor:
    """Write a Transpose that moves only axes of one element, and the Reshape beside it, as Squeeze or Unsqueeze.

    What: the one head of keys and values of multi-query attention, which is moved as several would be.
    Numerics: none.
    """
    less, more = sorted((m.x, m.y), key=lambda x: x.rank)
    turned = m.x if m.middle.rank == m.x.rank else m.middle
    require(more.rank == len(m.perm) > less.rank, "no axis is added or taken")
    wide = [axis for axis in m.perm if turned.shape[axis] != 1]
    require(wide == sorted(wide), "it changes the order of axes that have more than one element")
    ones = [axis for axis, size in enumerate(more.shape) if size == 1][: more.rank - less.rank]
    kept = tuple(size for axis, size in enumerate(more.shape) if axis not in ones)
    require(kept == tuple(less.shape), "more than axes of one element is added or taken")
    return g.squeeze(m.x, ones) if less is m.y else g.unsqueeze(m.x, ones)
