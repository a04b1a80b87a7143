"""A turn by a quarter as a product with a matrix of zeros and ones, as rotary embeddings for accelerators have it."""

from typing import Any

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule

LARGEST = 1 << 8  # columns of a head: larger matrices are weights, and are not read


def turned(g: Graph, x: Tensor, matrix: Constant, cos: Tensor, sin: Tensor) -> Tensor:
    """x · cos + (x · matrix) · sin: of all products with constants, few are added so, and no weights are read."""
    return g.add(g.mul(x, cos), g.mul(g.matmul(x, matrix), sin))


def quarter(size: int, first: list[int], second: list[int]) -> Any:
    """The matrix that puts the negatives of the second columns in the place of the first, and these in theirs."""
    made = np.zeros((size, size))
    made[second, first], made[first, second] = -1, 1
    return made


@rule(
    patterns=[turned],
    target="any",
    dtypes="floats",
    differs={"non_finite": "infinity times the zeros of the matrix is no number any more"},
)
def rotate_half_matmul(g: Graph, x: Tensor, matrix: Constant, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn halves, or neighbours, by moving them in place of a product with a matrix, so that what turns is found.

    What: MatMul with a constant that makes (−b, a) of two halves a, b of the last axis, or of each pair of neighbours,
    in a rotary embedding.
    Numerics: none, for finite numbers.
    """
    return g.add(g.mul(x, cos), g.mul(moved(g, x, matrix), sin))


def moved(g: Graph, x: Tensor, matrix: Constant) -> Tensor:
    """What the matrix makes of x, by moving."""
    size = matrix.shape[-1]
    is_square = matrix.shape == (size, size) and size % 2 == 0 and size <= LARGEST
    require(is_square and x.rank is not None, "the matrix is not square, or odd, or large")
    half, values = size // 2, matrix.values
    if np.array_equal(values, quarter(size, [*range(half)], [*range(half, size)])):
        first, second = g.split(x, [half, half], axis=-1, outputs=2)
        return g.concat(g.neg(second), first, axis=-1)
    is_of_pairs = np.array_equal(values, quarter(size, [*range(0, size, 2)], [*range(1, size, 2)]))
    require(is_of_pairs, "the matrix does more than turn halves or neighbours by a quarter")
    first, second = (g.slice(x, [start], [np.iinfo(np.int64).max], [x.rank - 1], [2]) for start in (0, 1))
    pairs = g.concat(g.unsqueeze(g.neg(second), [-1]), g.unsqueeze(first, [-1]), axis=-1)
    return g.reshape(pairs, [0] * (x.rank - 1) + [size])
