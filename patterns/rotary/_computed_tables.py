"""The tables of a matched rotary embedding in the form that ops require: each column once."""

from typing import Any, NamedTuple

import numpy as np
from onnx.helper import tensor_dtype_to_np_dtype

from surgeon import Graph, Tensor, require
from .._common.axes import is_same_size
from ._decomposed_rotary import CosSinTable, DecomposedRotary
from ._tables import MatrixColumn, half_table, require_rotation, sizes_of_table


class OpTables(NamedTuple):
    """The tables of a rotary embedding."""

    cos: Any
    """Cosines for half a head, [batch, row, column]."""
    sin: Any
    """Sines, in the same form."""
    is_one: bool
    """Whether all sequences of a batch share one table."""
    rows: int = 2
    """The axis of the input for the rows.  The heads are the other one of the axes 1 and 2."""
    is_apart: bool = False
    """Whether each head has separate rows, one head after the other."""


def op_tables(g: Graph, m: DecomposedRotary) -> OpTables:
    """Return the tables of a match.  Refuse tables to which x is broadcast."""
    require_rotation(m)
    both = (m.cos, m.sin) if m.matrix is None else (MatrixColumn(m.matrix, 0), MatrixColumn(m.matrix, 1))
    (cos, *said), (sin, *too) = (op_table(g, m, one) for one in both)
    require(said == too, "the shapes of the tables differ or are unknown")
    if m.scale.whole is not None:
        scale, *more = op_table(g, m, m.scale)
        require(said == more, "the shapes of the tables differ or are unknown")
        are_fixed = all(isinstance(table, np.ndarray) for table in (cos, sin, scale))
        cos, sin = (table * scale if are_fixed else g.mul(table, scale) for table in (cos, sin))
    if any(one is not None for one in (m.backwards, m.sin.signed, m.sin.pair)):  # the sines of the first part
        sin = -sin if isinstance(sin, np.ndarray) else g.neg(sin)
    return OpTables(cos, sin, *said)


def op_table(g: Graph, m: DecomposedRotary, table: CosSinTable | MatrixColumn) -> tuple[Any, ...]:
    """Return a table as [batch, row, column], and the remaining fields of `OpTables`."""
    source, half = m.x if m.base is None else m.base, m.sizes[3] // 2
    require(source.dtype is not None, "the dtype of the input is unknown")
    is_whole = isinstance(table, CosSinTable) and (table.whole is not None or table.signed is not None)
    *sizes, columns = sizes_of_table(table)
    is_told = columns == (2 * half if is_whole else half)
    may_be = isinstance(half, int) and not (is_whole or isinstance(columns, int))
    require(is_told or may_be, "the tables must have half as many columns as a head")
    axes = len(m.shape) - 1
    require(
        len(sizes) in range(1, axes + 1), "the tables must have the axes batch, head, row, column, or the last of them"
    )
    is_behind = len(sizes) > 1 and sizes[-1] == 1 and (sizes[-2] != 1 or isinstance(m.sizes[2], int))
    rows = 1 if is_behind else 2  # heads follow the rows, or precede them
    is_apart = rows == 2 and len(sizes) > 1 and sizes[-2] != 1
    fits = len(sizes) == 2 or sizes[0] in (1, m.sizes[0])
    fits = fits and sizes[-2:] == list(m.sizes[1:3]) and isinstance(sizes[-2], int) and sizes[-2] > 0
    require(
        fits or not is_apart,
        "the tables differ between heads, and their sizes are not known to be those of the heads and rows",
    )
    batch, count = sizes[0] if len(sizes) == 3 else 1, sizes[-2] if rows == 1 else sizes[-1]
    for size, own in ((count, m.sizes[rows]), (batch, m.sizes[0])):
        is_fixed = own == 1 or isinstance(size, int)
        require(size in (1, own) or not is_fixed, "the tables must have the same batch and rows as the input")
    dtype = source.dtype if m.wide is None else tensor_dtype_to_np_dtype(m.wide)
    one, axis = half_table(g, table, m.axis), 0 if is_apart else rows
    rank = len(sizes) + 1
    if is_told:
        made = reshaped_table(
            g, one, rank, sizes=(batch, merged_size(*sizes[-2:]) if is_apart else -1, half), rows=axis, dtype=dtype
        )
    else:
        require(not is_apart, "the tables may not have half as many columns as a head")
        made = in_order(g, one, rank, axis)
    sides = ((0, batch in (1, m.sizes[0])), (rows, is_same_size(count, m.sizes[rows])))
    if not is_told or not all(is_there for _, is_there in sides):  # sizes 1 or equal, which only the inputs decide
        x = heads_of(g, m)
        own = (1 if is_there else g.size_of(x, at + axes - 3) for at, is_there in sides)
        made = g.spread(made, [*own, 1 if is_told else half])
    return made, batch == 1, rows, is_apart


def heads_of(g: Graph, m: DecomposedRotary) -> Tensor:
    """Return the heads.  If a consumer reads the tensor before the split, split it again."""
    if m.base is None:
        return m.x
    if m.gone is not None or m.added is not None:
        return g.squeeze(m.base, m.gone) if m.added is None else g.unsqueeze(m.base, m.added)
    if m.base.shape == tuple(m.sizes):
        return m.base
    if m.base.shape == (1, *m.sizes):  # one of several joined tensors
        return g.squeeze(m.base, [0])
    *ahead, heads, columns = m.sizes
    is_split = len(m.shape) == 4 and bool(m.base.shape) and m.base.shape[:2] == tuple(ahead)
    require(is_split, "the heads are split from other rows")
    require(isinstance(heads, int), "the number of heads is unknown")
    return g.reshape(m.base, [0, 0, heads, columns])


def merged_size(heads: Any, rows: Any) -> int:
    """Return the number of rows of all heads, or -1 if unknown: Reshape infers it, except for empty tensors."""
    return heads * rows if isinstance(heads, int) and isinstance(rows, int) else -1


def reshaped_table(g: Graph, table: Any, rank: int, sizes: tuple[Any, int, int], rows: int, dtype: Any) -> Any:
    """Return a table as [batch, row, column].

    rank: the rank of the table. rows: the axis of its rows, or 0 if each head has separate rows.
    """
    batch, count, half = sizes
    if isinstance(table, np.ndarray):
        return table.astype(dtype).reshape(batch, -1, half)
    if batch == 1 or not rows:
        return g.reshape(table, [1 if batch == 1 else 0, count, half])
    return in_order(g, table, rank, rows)


def in_order(g: Graph, table: Any, rank: int, rows: int) -> Any:
    """Return a table with all of its columns, of any number, as [batch, row, column]."""
    require(rank in (2, 3, 4), "the axes of a table are unknown")
    return table if rank == 3 else g.squeeze(table, [3 - rows]) if rank == 4 else g.unsqueeze(table, [0])
