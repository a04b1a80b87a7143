"""Checks of the tables and ids of embeddings, and their form as inputs of fused ops."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, dims, require

Table = tuple[Tensor, Tensor]


class Embedding(Captures):
    """Up to three tables with the ids that select their rows, and the norm of the sum of the rows.

    Without ids, the rows of `two` are used in order.  They are the rows for the first `count` positions, which are
    `counted` from 0, or rows that are `fixed`.

    axis: the axis along which counted or fixed positions are sliced. widest: the first input of a norm that also adds.
    """

    one: Constant = dims("_ _")
    one_ids: Tensor
    two: Constant | Any = dims("_ _", default=None)
    two_ids: Tensor | Any = None
    three: Constant | Any = dims("_ _", default=None)
    three_ids: Tensor | Any = None
    gamma: Tensor
    beta: Tensor
    epsilon: float
    counted: Constant | Any = None
    fixed: Constant | Any = None
    count: Tensor | Any = None
    axis: list[int] | Any = ()
    widest: Tensor | Any = None


def are_tables_compatible(m: Embedding) -> None:
    """Require tables with the same number of columns, vectors of that length, and one dtype."""
    for table in (m.two, m.three):
        require(table is None or table.shape[1] == m.one.shape[1], "the tables have different numbers of columns")
    for vector in (m.gamma, m.beta):
        require(vector.shape == m.one.shape[1:], "scale and bias must be vectors over the last axis")
        require(vector.dtype == m.one.dtype, "scale and bias must have the dtype of the tables")
    require(m.epsilon >= 0, "the kernel of ONNX Runtime does not support a negative epsilon")


def position_table(m: Embedding, length: Any) -> Any:
    """Return the table with one row for each position.  Refuse positions that are not 0, 1, 2, ... up to a length."""
    axis = 0 if m.axis is None else m.axis[0] if m.axis else -2
    if m.count is not None:
        require(m.count.elements == [length], "the number of positions differs from the number of ids")
    if m.fixed is not None:
        fixed = m.fixed.values
        require(fixed.ndim in (2, 3) and fixed.shape[:-2] in ((), (1,)), "the positions differ between batch elements")
        require(fixed.shape[-1] == m.one.shape[1], "the tables have different numbers of columns")
        require(
            m.count is not None or fixed.shape[-2] == length, "the number of positions differs from the number of ids"
        )
        require(axis in (-2, fixed.ndim - 2), "the positions are sliced along another axis")
        require(m.count is None or fixed.shape[-2] > 1, "one position is used for all ids")
        return fixed.reshape(fixed.shape[-2:])
    if m.counted is not None:
        counted = m.counted.values
        require(counted.ndim in (1, 2), "the positions must have the axes batch, row")
        require(axis in (-1, counted.ndim - 1), "the positions are sliced along another axis")
        require(
            counted.size == counted.shape[-1] > 1,
            "one position is used for all ids, or the positions differ between batch elements",
        )
        require(np.array_equal(counted.reshape(-1), np.arange(counted.size)), "the positions do not count from 0")
    return m.two


def is_arange(places: Tensor) -> bool:
    """Return whether positions are the fixed numbers 0, 1, 2, ... in one row."""
    return places.is_constant and np.array_equal(places.values.reshape(-1), np.arange(places.shape[-1]))


def tables_and_positions(m: Embedding) -> tuple[list[Table], tuple[Any, Tensor | None]]:
    """Return the tables with an id for each word, largest table first, then the table of positions with its ids.

    The positions may be the same for the whole batch.  They are None if they are 0, 1, 2, ...
    """
    tables = (m.one, m.one_ids), (m.two, m.two_ids), (m.three, m.three_ids)
    found = [(table, ids) for table, ids in tables if ids is not None]
    require(all(ids.shape is not None for _, ids in found), "the shape of the ids is unknown")
    found.sort(key=lambda pair: pair[0].shape[0], reverse=True)
    if m.two_ids is None:
        size = found[0][1].shape
        require(all(len(size) == 2 and ids.shape == size for _, ids in found), "the ids have different shapes")
        return found, (position_table(m, size[1]), None)
    for at in (1, len(found) - 1, 0):
        others, (table, places) = found[:at] + found[at + 1 :], found[at]
        size = others[0][1].shape
        fits = len(size) == 2 and places.shape in (size, (1, size[1]), size[1:])
        if fits and all(ids.shape == size for _, ids in others):
            return others, (table, None if is_arange(places) else places)
    require(False, "the ids have different shapes")
    return found, found[0]


def as_ids(g: Graph, ids: Tensor) -> Any:
    """Convert ids to the form that the op requires: int32 with two axes."""
    whole = g.unsqueeze(ids, [0]) if ids.rank == 1 else ids
    return whole if ids.dtype == np.int32 else g.cast(whole, to=np.int32)
