"""The tables of a rotary embedding that was found, each column once, as ops want them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from onnx.helper import tensor_dtype_to_np_dtype

from surgeon import Graph, Tensor, require
from ._layouts import size_of
from ._rotary import Rotary
from ._rotary_parts import HALVES
from ._rotary_tables import Table


class Tables(NamedTuple):
    """Cosine and sine of [batch, row, column], for half a head each, and whether the batch is one for all.

    rows: the axis of the input for whose places there are rows; the heads are the other of 1 and 2.  is_apart: whether
    each head has rows of its own, one head behind the other.
    """

    cos: Any
    sin: Any
    is_one: bool
    rows: int = 2
    is_apart: bool = False


def halved(g: Graph, m: Table, curve: Callable[[Tensor], Tensor], axis: int) -> tuple[Any, int]:
    """Each column of a table once, and the number of axes that this has."""
    made: Any = m.half
    rank = made.rank if made is not None else m.fixed.rank
    if m.fixed is not None:
        values = m.fixed.values
        parts = 2 if m.first is None is m.second else 4
        require(values.shape[-1] % parts == 0, "the columns of a table are not even in number")
        if parts == 4:
            values = np.split(values, 2, -1)[m.first is None]
        made, other = np.split(values, 2, -1) if axis == HALVES else (values[..., ::2], values[..., 1::2])
        require(made.shape == other.shape and bool(np.all(made == other)), "unlike halves of a table")
    else:
        require(m.first is None is m.second, "half of a table of which each column stands twice")
        alike = m.doubled is None or (rank is not None and m.doubled.rank == rank)
        require(alike or m.places is None is m.start, "the rows of a table are not known")
    if m.places is not None:
        made, rank = g.gather(made, m.places, axis=0), rank + (m.places.rank or 0) - 1
    elif m.start is not None:
        require(len(m.axes) == 1 and m.axes[0] not in (-1, rank - 1), "columns of a table are left out")
        made = g.slice(made, m.start, m.end, m.axes)
    made = made if m.curved is None else curve(made)
    made = g.mul(made, m.factor) if m.factor != 1.0 else made
    for dtype in (m.dtype, m.last):
        made = made if dtype is None else g.cast(made, to=dtype)
    return made, rank


def are_alike(cos: Table, sin: Table) -> bool:
    """Whether the same rows are cut out of two tables of one shape."""
    if cos.end is None or sin.end is None or cos.fixed is None or sin.fixed is None:
        return False
    if cos.fixed.shape != sin.fixed.shape:
        return False
    bounds = [(one.start.elements, one.end.elements, one.axes) for one in (cos, sin)]
    return None not in bounds[0] and bounds[0] == bounds[1]


def tables(g: Graph, m: Rotary) -> Tables:
    """The tables that a match found.  Refuses those to which x is spread."""
    source, pairs = m.x if m.base is None else m.base, ((m.cos, g.cos), (m.sin, g.sin))
    require(source.dtype is not None, "the dtype of the input is unknown")
    made = [halved(g, one, curve, m.axis) for one, curve in pairs]
    half = m.sizes[3] // 2
    found = [(one.half, half) if one.whole is None else (one.whole, 2 * half) for one, _ in pairs]
    shapes = [None if table.shape is None else table.shape[:-1] for table, _ in found]
    require(shapes[0] is not None, "the tables' shapes are unknown")
    require(shapes[0] == shapes[1] or are_alike(m.cos, m.sin), "the tables' shapes differ or are unknown")
    require(all(table.shape[-1] == wanted for table, wanted in found), "the tables are not of half a head")
    sizes: Any = shapes[0]
    require(len(sizes) in (1, 2, 3), "the tables have other axes than batch, head, row, column")
    rows = 1 if len(sizes) > 1 and sizes[-1] == 1 != sizes[-2] else 2  # heads stand behind the rows, or before
    is_apart = rows == 2 and len(sizes) > 1 and sizes[-2] != 1
    fits = len(sizes) == 2 or sizes[0] == 1
    fits = fits and sizes[-2:] == tuple(m.sizes[1:3]) and isinstance(sizes[-2], int)
    require(fits or not is_apart, "the tables differ from head to head, and are not for these heads and rows alone")
    batch, count = sizes[0] if len(sizes) == 3 else 1, sizes[-2] if rows == 1 else sizes[-1]
    for size, wanted in ((count, m.sizes[rows]), *(((batch, m.sizes[0]),) if batch != 1 else ())):
        is_fixed = 1 in (size, wanted) or (isinstance(size, int) and isinstance(wanted, int))
        require(size == wanted or not is_fixed, "the tables have other batches or rows than the input")
    dtype = source.dtype if m.wide is None else tensor_dtype_to_np_dtype(m.wide)
    cos, sin = (laid(g, table, rank, (batch, half), rows, dtype) for table, rank in made)
    open_axes = [axis for axis, size in ((0, batch), (rows, count)) if size not in (1, m.sizes[axis])]
    if open_axes:  # one or the other, which only the model's inputs tell
        one = np.ones(1, np.int64)
        shape = g.concat(*(size_of(g, source, at) if at in open_axes else one for at in (0, rows)), one, axis=0)
        cos, sin = g.expand(cos, shape), g.expand(sin, shape)
    return Tables(cos, sin, batch == 1, rows, is_apart)


def laid(g: Graph, table: Any, rank: int, sizes: tuple[Any, int], rows: int, dtype: Any) -> Any:
    """A table of so many axes as [batch, row, column]."""
    batch, half = sizes
    if isinstance(table, np.ndarray):
        return table.astype(dtype).reshape(batch, -1, half)
    if batch == 1:
        return g.reshape(table, [1, -1, half])
    require(rank in (3, 4), "the axes of a table are not known")
    return table if rank == 3 else g.squeeze(table, [3 - rows])
