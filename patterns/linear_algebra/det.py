"""Determinants of small matrices by elimination."""

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require, rule

LARGEST = 4
INFINITE = {"non_finite": "for infinite or NaN elements each runtime gives another determinant"}


class Square(Captures):
    """A matrix, or a batch of matrices."""

    x: Tensor = dims("... size size")
    size: int


def determinant(g: Graph, m: Square) -> Tensor:
    """Det."""
    return g.det(m.x)


@rule(patterns=[determinant], target="any", lacking=True, dtypes="floats", differs=INFINITE)
def det(g: Graph, m: Square) -> Tensor:
    """Write the determinant of a matrix of up to four rows as the product of its pivots.

    What: elimination that starts with the row of the largest element, as in LAPACK, if the target does not support Det.
    Numerics: rounding only.
    """
    require(1 <= m.size <= LARGEST, f"the matrix has {m.size} rows, but at most {LARGEST} are supported")
    rows = [g.slice(m.x, [row], [row + 1], [-2]) for row in range(m.size)]
    product = None
    for step in range(m.size):
        heads = [g.slice(row, [step], [step + 1], [-1]) for row in rows]
        for place in range(1, len(rows)):
            is_larger = g.greater(g.abs(heads[place]), g.abs(heads[0]))
            for pair in (rows, heads):
                # One of the two changes its sign, because swapping two rows changes the sign of a determinant.
                first, other = pair[0], pair[place]
                pair[0], pair[place] = g.where(is_larger, other, first), g.where(is_larger, g.neg(first), other)
        pivot = heads[0]
        product = pivot if product is None else g.mul(product, pivot)
        safe = g.where(g.equal(pivot, 0.0), 1.0, pivot)
        below = zip(rows[1:], heads[1:], strict=True)
        rows = [g.sub(row, g.mul(g.div(head, safe), rows[0])) for row, head in below]
    assert product is not None, "a matrix has rows"
    return g.squeeze(product, np.array([-2, -1]))
