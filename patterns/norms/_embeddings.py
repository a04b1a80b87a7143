"""What embeddings ask of their tables and ids, and how ops that take them want these."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, dims, require

Table = tuple[Tensor, Tensor]


class Embedding(Captures):
    """Up to three tables with the ids that name rows of them, and the norm of the sum of these.

    Without ids the rows of `two` stand in their order: those of the first `count` places, which are `counted` from 0,
    or rows that are `fixed`.  axis: along which counted or fixed ones are cut.
    """

    one: Constant = dims("_ _")
    one_ids: Tensor
    two: Constant | Any = dims("_ _", default=None)
    two_ids: Tensor | Any = None
    three: Constant | Any = dims("_ _", default=None)
    three_ids: Tensor | Any = None
    gamma: Constant
    beta: Constant
    epsilon: float
    counted: Constant | Any = None
    fixed: Constant | Any = None
    count: Tensor | Any = None
    axis: list[int] | Any = ()


def are_tables_compatible(m: Embedding) -> None:
    """Tables of equally many columns, and vectors of as many numbers, all of one dtype."""
    for table in (m.two, m.three):
        require(table is None or table.shape[1] == m.one.shape[1], "the tables have different columns")
    for vector in (m.gamma, m.beta):
        require(vector.shape == m.one.shape[1:], "scale and bias must be vectors over the last axis")
        require(vector.dtype == m.one.dtype, "scale and bias must have the dtype of the tables")
    require(m.epsilon >= 0, "ONNX Runtime's kernel takes no negative epsilon")


def position_table(m: Embedding, length: Any) -> Any:
    """The table of which a row stands for each place.  Refuses places that are not 0, 1, 2, ... up to a length."""
    axis = 0 if m.axis is None else m.axis[0] if m.axis else -2
    if m.count is not None:
        require(m.count.elements == [length], "it is not as many places as there are ids")
    if m.fixed is not None:
        fixed = m.fixed.values
        require(fixed.ndim in (2, 3) and fixed.shape[:-2] in ((), (1,)), "the places differ from batch to batch")
        require(fixed.shape[-1] == m.one.shape[1], "the tables have different columns")
        require(m.count is not None or fixed.shape[-2] == length, "it is not as many places as there are ids")
        require(axis in (-2, fixed.ndim - 2), "another axis is cut")
        require(m.count is None or fixed.shape[-2] > 1, "one place serves all ids")
        return fixed.reshape(fixed.shape[-2:])
    if m.counted is not None:
        counted = m.counted.values
        require(counted.ndim in (1, 2), "the places have other axes than batch, row")
        require(axis in (-1, counted.ndim - 1), "another axis is cut")
        require(counted.size == counted.shape[-1] > 1, "one place serves all ids, or places differ from batch to batch")
        require(np.array_equal(counted.reshape(-1), np.arange(counted.size)), "the places do not count from 0")
    return m.two


def is_arange(places: Tensor) -> bool:
    """Whether places are the fixed numbers 0, 1, 2, ... of one row."""
    return places.is_constant and np.array_equal(places.values.reshape(-1), np.arange(places.shape[-1]))


def tables_and_positions(m: Embedding) -> tuple[list[Table], tuple[Any, Tensor | None]]:
    """The tables with an id for each word, that of the most rows first; then that of the places, with these.

    The places may be the same for all batches; None where they are 0, 1, 2, ...
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
    """Ids as the op takes them: int32, of two axes."""
    whole = g.unsqueeze(ids, [0]) if ids.rank == 1 else ids
    return whole if ids.dtype == np.int32 else g.cast(whole, to=np.int32)
