"""The contents of a table of a rotary embedding, in any matched form: its sizes, and each of its columns once."""

from typing import Any, NamedTuple

from surgeon import Graph, Tensor, require
from ._decomposed_rotary import CosSinTable, DecomposedRotary
from ._rotary_halves import HALF_SPLIT

NOT_A_ROTATION = "the matrices must contain cosines and sines, one of them negative"


class MatrixColumn(NamedTuple):
    """One number of each matrix that rotates pairs: first column, given row."""

    matrix: Tensor
    """The 2 x 2 matrices, in the last two axes."""
    row: int
    """The row of the number, 0 or 1."""


def half_table(g: Graph, m: CosSinTable | MatrixColumn, axis: int) -> Any:
    """Return each column of a table once."""
    if isinstance(m, MatrixColumn):
        return g.gather(g.gather(m.matrix, 0, axis=-1), m.row, axis=-1)
    table = m.whole if m.signed is None else m.signed
    if table is None and m.pair is not None:
        return g.gather(m.pair, 0, axis=-1)
    if table is None:
        return m.half if m.lifted is None else g.squeeze(m.lifted, [-1])
    columns = table.columns
    require(columns is not None, "the number of columns of a table is unknown")
    half = len(columns) // 2
    first, second = (columns[:half], columns[half:]) if axis == HALF_SPLIT else (columns[::2], columns[1::2])
    if m.signed is not None:
        require(
            second == tuple(-column for column in first), "the signs of the sines must differ between the two parts"
        )
    require(m.signed is not None or first == second, "the two halves of a table differ")
    end, step = (half, 1) if axis == HALF_SPLIT else (2 * half, 2)
    return table.values[..., :end:step] if table.is_constant else g.slice(table, [0], [end], [-1], [step])


def sizes_of_table(table: CosSinTable | MatrixColumn) -> tuple[Any, ...]:
    """Return the shape of a table, with at least one axis, without a last axis of size one."""
    if isinstance(table, MatrixColumn):
        return tuple(table.matrix.shape[:-2])
    given = next(one for one in (table.whole, table.signed, table.half, table.lifted, table.pair) if one is not None)
    require(given.shape is not None, "the shapes of the tables are unknown")
    if table.lifted is None and table.pair is None:
        return given.shape or (None,)
    require(
        given.shape[-1:] == (1 if table.pair is None else 2,), "the last axis of the tables does not match the parts"
    )
    return given.shape[:-1] or (None,)


def require_rotation(m: DecomposedRotary) -> None:
    """Refuse sines or columns of a matrix that do not describe a rotation."""
    sin = m.sin
    if m.matrix is not None:
        is_square = m.matrix.shape is not None and m.matrix.shape[-2:] == (2, 2)
        cells = m.matrix.cells(2) if is_square else None
        require(cells is not None and cells[0] == cells[3] and cells[1] == -cells[2], NOT_A_ROTATION)
    if sin.pair is not None:
        own, other = m.cos.pair.columns_beside(sin.pair)
        is_turn = own is not None and len(other or ()) == 2 and own == (other[1], -other[0])
        require(is_turn, NOT_A_ROTATION)
    if sin.negated is not None:
        own, other = sin.negated.columns_beside(sin.half if sin.lifted is None else sin.lifted)
        is_turn = own is not None and other is not None and own == tuple(-column for column in other)
        require(is_turn, "one of the two sines must be the negative of the other")
