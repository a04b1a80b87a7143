"""Columns that are written into a tensor, of which nothing is left then, as `out[..., 0::2] = a` is exported."""

from surgeon import Captures, Constant, Graph, Tensor, require, rule


class Written(Captures):
    """Two tensors whose columns are written at places along the last axis, which is moved to the front for it."""

    data: Tensor
    first: Tensor
    second: Tensor
    places: Constant
    others: Constant
    perm: list[int]


def both_written(g: Graph, m: Written) -> Tensor:
    """ScatterND into what another one made."""
    once = g.scatter_nd(m.data, m.places, g.transpose(m.first, perm=m.perm))
    return g.scatter_nd(once, m.others, g.transpose(m.second, perm=m.perm))


@rule(patterns=[both_written], target="any")
def written_parts(g: Graph, m: Written) -> Tensor:
    """Join two tensors, instead of writing the columns of both into a third that they fill.

    What: ScatterND of columns into all places of a tensor: those of one in front of those of the other, or by turns.
    Numerics: none.
    """
    rank = len(m.perm)
    is_last = rank > 1 and m.perm == [rank - 1, *range(1, rank - 1), 0]
    require(is_last, "it is not the last axis that is moved to the front")
    size = len(m.places.values)
    whole = 2 * size
    require(m.data.shape and m.data.shape[0] == whole, "it is not known that two parts fill the whole")
    given = [x.values.reshape(-1).tolist() for x in (m.places, m.others)]
    fits = m.places.shape == m.others.shape == (size, 1)
    if fits and given == [list(range(0, whole, 2)), list(range(1, whole, 2))]:
        pairs = g.concat(*(g.unsqueeze(x, [-1]) for x in (m.first, m.second)), axis=-1)
        return g.transpose(g.reshape(pairs, [0] * (rank - 1) + [whole]), perm=m.perm)
    require(fits and given == [list(range(size)), list(range(size, whole))], "the columns stand otherwise")
    return g.transpose(g.concat(m.first, m.second, axis=-1), perm=m.perm)
