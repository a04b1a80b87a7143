"""Columns that are written into a tensor and replace all of it, as in the export of `out[..., 0::2] = a`."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule


class Written(Captures):
    """Two tensors whose columns are written to indices along the last axis.

    perm: the Transpose that moves this axis to the front, if the indices are only for that axis.
    """

    data: Tensor
    first: Tensor
    second: Tensor
    places: Tensor
    others: Tensor
    perm: list[int] | Any = None


def both_written(g: Graph, m: Written) -> Tensor:
    """A ScatterND into the result of a ScatterND, as dynamo exports it."""
    once = g.scatter_nd(m.data, m.places, g.transpose(m.first, perm=m.perm))
    return g.scatter_nd(once, m.others, g.transpose(m.second, perm=m.perm))


def both_assigned(g: Graph, m: Written) -> Tensor:
    """The same with one index for each element along all axes, as TorchScript exports it."""
    return g.scatter_nd(g.scatter_nd(m.data, m.places, m.first), m.others, m.second)


def along(places: Tensor, written: Tensor, whole: tuple[Any, ...], depth: int) -> list[int]:
    """Return the columns along the last axis that are written.  Along all other axes each element keeps its index.

    depth: the number of axes of the whole tensor to which the indices apply, including the last one.
    """
    index, size = places.index, written.shape[-1]
    require(index is not None and isinstance(size, int), "the written columns are unknown")
    sizes = written.shape if depth > 1 else (size,)
    units = [tuple(int(at == axis and length != 1) for at, length in enumerate(sizes)) for axis in range(depth)]
    *rows, last = index
    pairs = zip(rows, units, strict=False)
    is_kept = len(index) == depth and all(one.offset == 0 and one.strides == own for one, own in pairs)
    require(is_kept and written.shape[:-1] == whole[:-1], "the rows of the updates are written to other rows")
    *around, step = last.strides
    require(
        isinstance(last.offset, int) and isinstance(step, int) and not any(around),
        "the written columns depend on their row",
    )
    return [last.offset + step * place for place in range(size)]


@rule(patterns=[both_written, both_assigned], target="any")
def scatter_to_concat(g: Graph, m: Written) -> Tensor:
    """Concatenate two tensors, instead of writing the columns of both into a third tensor that they fill.

    What: ScatterND of columns to all indices of a tensor: first the columns of one and then of the other, or
    alternating.
    Numerics: none.
    """
    require(m.data.shape is not None and m.first.rank == m.second.rank == m.data.rank, "a shape is unknown")
    rank, shape = m.data.rank, m.data.shape
    if m.perm is not None:
        is_last = rank > 1 and m.perm == [rank - 1, *range(1, rank - 1), 0]
        require(is_last, "the Transpose must move only the last axis to the front")
        shape = tuple(shape[axis] for axis in m.perm)
    depth = rank if m.perm is None else 1
    given = [along(*part, shape, depth) for part in ((m.places, m.first), (m.others, m.second))]
    whole = sum(map(len, given))
    require(shape[-1] == whole, "the two parts may not fill the whole tensor")
    if given == [list(range(0, whole, 2)), list(range(1, whole, 2))]:
        pairs = g.concat(*(g.unsqueeze(x, [-1]) for x in (m.first, m.second)), axis=-1)
        made = g.reshape(pairs, [0] * (rank - 1) + [whole])
    else:
        size = len(given[0])
        require(given == [list(range(size)), list(range(size, whole))], "the columns are in another order")
        made = g.concat(m.first, m.second, axis=-1)
    return made if m.perm is None else g.transpose(made, perm=m.perm)
