"""What rotary embeddings have in common: what they capture, and the tables that were found."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, dims, require

Array = np.ndarray[Any, Any]


class Rotary(Captures):
    """A tensor that is turned, and its cosines and sines: given, of angles, or fixed, for half a head or the whole.

    x: the heads stand before the rows or behind them.  spread: angles with or without an axis for the heads; angles and
    row_cos, row_sin have none.  cos_spread, sin_spread: tables with axes for heads and copies.  dtype, last: of casts.
    """

    x: Tensor = dims("batch _ _ columns")
    cos: Tensor | Any = None
    sin: Tensor | Any = None
    cos_spread: Tensor | Any = None
    sin_spread: Tensor | Any = None
    row_cos: Tensor | Any = dims("tables rows half", default=None)
    row_sin: Tensor | Any = dims("tables rows half", default=None)
    whole_cos: Constant | Any = dims("_ _", "_ _ _", "_ _ _ _", default=None)
    whole_sin: Constant | Any = dims("_ _", "_ _ _", "_ _ _ _", default=None)
    angles: Tensor | Any = dims("tables rows half", default=None)
    spread: Tensor | Any = None
    cos_factor: float = 1.0
    sin_factor: float = 1.0
    dtype: int | Any = None
    last: int | Any = None
    columns: int


class Tables(NamedTuple):
    """Cosine and sine of [batch, row, column], for half a head each, and whether the batch is one for all.

    rows: the axis of the input for whose places there are rows; the heads are the other of 1 and 2.
    """

    cos: Any
    sin: Any
    is_one: bool
    rows: int = 2


def one_of_two(first: Array, second: Array) -> Array:
    """One of the two equal parts of a fixed table, as [batch, row, column]."""
    require(first.shape == second.shape and bool(np.all(first == second)), "unlike halves of a table")
    require(first.ndim == 2 or first.shape[-3] == 1, "the tables differ from head to head")
    return first.reshape(-1, *first.shape[-2:])


def require_fits(x: Tensor, batch: Any, rows: Any, columns: Any, axis: int = 2) -> None:
    """Refuse tables that are broadcast along other axes than batch and heads, or to which x is."""
    require(2 * columns == x.shape[3], "the tables are not of half a head")
    for size, wanted in ((rows, x.shape[axis]), *(((batch, x.shape[0]),) if batch != 1 else ())):
        fixed = 1 in (size, wanted) or (isinstance(size, int) and isinstance(wanted, int))
        require(size == wanted or not fixed, "the tables have other batches or rows than the input")


def tables(g: Graph, m: Rotary, halved: Callable[[Array], Array] = lambda values: values) -> Tables:
    """The tables that a match found.  halved: what takes one of the two equal parts of a fixed table."""
    require(m.x.dtype is not None, "the dtype of the input is unknown")
    if m.whole_cos is not None:
        first, second = (halved(table.values).astype(m.x.dtype) for table in (m.whole_cos, m.whole_sin))
        require(first.shape == second.shape, "the tables' shapes differ or are unknown")
        require_fits(m.x, *first.shape)
        return Tables(first, second, len(first) == 1)
    for whole in (m.angles, m.row_cos):
        if whole is not None:
            require_fits(m.x, *whole.shape)
            cos, sin = (m.row_cos, m.row_sin) if m.angles is None else curves(g, m, whole)
            return Tables(cos, sin, whole.shape[0] == 1)
    if m.spread is not None:
        return given(g, m.x, curves(g, m, m.spread), (m.spread.shape, m.spread.shape), m.spread.rank)
    sizes = m.cos.shape, m.sin.shape
    if m.cos_spread is not None:
        sizes = m.cos_spread.shape[:-1], m.sin_spread.shape[:-1]
    return given(g, m.x, (m.cos, m.sin), sizes, m.cos.rank)


def curves(g: Graph, m: Rotary, angles: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of angles, each with the factor and the dtypes that the match found."""
    made = []
    for curve, factor in ((g.cos(angles), m.cos_factor), (g.sin(angles), m.sin_factor)):
        times = g.mul(curve, factor) if factor != 1.0 else curve
        for dtype in (m.dtype, m.last):
            times = times if dtype is None else g.cast(times, to=dtype)
        made.append(times)
    return made[0], made[1]


def given(g: Graph, x: Tensor, found: tuple[Tensor, Tensor], sizes: tuple[Any, Any], rank: int | None) -> Tables:
    """Tables of half a head, as they are multiplied with it: of sizes with 1 for the heads, or no axis for them."""
    size = sizes[0]  # with the axes that were added to tables of this rank
    require(size is not None and sizes[1] == size, "the tables' shapes differ or are unknown")
    require(len(size) in (2, 3, 4), "the tables have other axes than batch, head, row, column")
    axis = 1 if len(size) > 2 and size[-2] == 1 != size[-3] else 2  # heads stand behind the rows, or before
    batch, rows, columns = size[0] if len(size) == 4 else 1, size[-3] if axis == 1 else size[-2], size[-1]
    require(axis == 1 or len(size) == 2 or size[-3] == 1, "the tables differ from head to head")
    require_fits(x, batch, rows, columns, axis)
    if batch == 1:
        cos, sin = (g.reshape(item, [1, -1, columns]) for item in found)
    else:
        cos, sin = (item if rank == 3 else g.squeeze(item, [3 - axis]) for item in found)
    return Tables(cos, sin, batch == 1, axis)
