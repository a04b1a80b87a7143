"""Products of a vector with one or several matrices."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, require, rule


def product(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """MatMul."""
    return g.matmul(x, y)


@rule(patterns=[product], target="tensorrt")
def vector_matmul(g: Graph, x: Tensor, y: Tensor) -> Tensor:
    """Write the product of a vector with several matrices as the product of a matrix with one row.

    What: a MatMul whose left factor is a vector and whose right factor has three axes or more.  TensorRT extends the
    vector to only two axes, fewer than the matrices have.
    Numerics: rounding only.
    """
    require(x.rank == 1, "the left factor must be a vector")
    require(y.rank is not None and y.rank > 2, "the right factor must be a batch of matrices")
    return g.squeeze(g.matmul(g.unsqueeze(x, np.array([0])), y), np.array([-2]))


class VectorProduct(Captures):
    """A vector x that is reshaped to a row or a column, the other factor w, and their product (made), reshaped (y)."""

    x: Tensor
    w: Tensor
    row: Tensor | Any = None
    column: Tensor | Any = None
    made: Tensor
    y: Tensor


def by_row(g: Graph, m: VectorProduct) -> Tensor:
    """A row with the numbers of x, times w, without the axis of the row."""
    m.row = g.shared(g.reshaped(m.x))
    m.made = g.matmul(m.row, m.w)
    m.y = g.reshaped(m.made)
    return m.y


def by_column(g: Graph, m: VectorProduct) -> Tensor:
    """w times a column with the numbers of x, without the axis of the column."""
    m.column = g.shared(g.reshaped(m.x))
    m.made = g.matmul(m.w, m.column)
    m.y = g.reshaped(m.made)
    return m.y


@rule(patterns=[by_row, by_column])
def vector_product(g: Graph, m: VectorProduct) -> Tensor:
    """Multiply a vector directly, instead of reshaping it to a row or a column and the product back.

    What: MatMul between two Reshapes.  The first makes a matrix of a vector, and the second removes its axis of size 1.
    Numerics: rounding only.
    """
    require(m.x.rank == 1, "the reshaped factor must be a vector")
    require(m.w.rank is not None and m.w.rank > 1, "the other factor must be a matrix or a batch of matrices")
    size, *_ = m.x.shape
    matrix, wanted, gone = (m.column, (size, 1), -1) if m.row is None else (m.row, (1, size), -2)
    require(matrix.shape == wanted, "the vector must become a row on the left or a column on the right")
    left = list(m.made.shape or ())
    require(bool(left) and left.pop(gone) == 1, "the shape of the product is unknown")
    require(m.y.shape == tuple(left), "the second Reshape must remove only the axis of the vector")
    return g.matmul(m.w, m.x) if m.row is None else g.matmul(m.x, m.w)
