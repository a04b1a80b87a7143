"""A rotation by 90 degrees as a product with a matrix of zeros and ones, as in rotary embeddings for accelerators."""

from typing import Any

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule

LARGEST = 1 << 8  # columns of a head: a larger matrix is a weight, which is not read


def turned(g: Graph, x: Tensor, matrix: Constant, cos: Tensor, sin: Tensor) -> Tensor:
    """x · cos + (x · matrix) · sin.  Few products with constants are added like this, and no weights are read."""
    return g.add(g.mul(x, cos), g.mul(g.matmul(x, matrix), sin))


def quarter(size: int, first: list[int], second: list[int]) -> Any:
    """Return the matrix that replaces the first columns by the negatives of the second, and the second by the first."""
    made = np.zeros((size, size))
    made[second, first], made[first, second] = -1, 1
    return made


@rule(
    patterns=[turned],
    target="any",
    dtypes="floats",
    differs={"non_finite": "infinity times a zero of the matrix is NaN; the rewritten graph has no such product"},
)
def rotate_half_matmul(g: Graph, x: Tensor, matrix: Constant, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate halves or neighbours by moving them instead of a matrix product, so that the rotary rules match.

    What: MatMul with a constant that produces (−b, a) from two halves a, b of the last axis, or from each pair of
    neighbours, in a rotary embedding.
    Numerics: none for finite numbers.
    """
    return g.add(g.mul(x, cos), g.mul(moved(g, x, matrix), sin))


def moved(g: Graph, x: Tensor, matrix: Constant) -> Tensor:
    """Apply the matrix to x by moving elements."""
    size = matrix.shape[-1]
    is_square = matrix.shape == (size, size) and size % 2 == 0 and size <= LARGEST
    require(is_square and x.rank is not None, "the matrix must be square with an even size of at most 256")
    half, values = size // 2, matrix.values
    if np.array_equal(values, quarter(size, [*range(half)], [*range(half, size)])):
        first, second = g.split(x, [half, half], axis=-1, outputs=2)
        return g.concat(g.neg(second), first, axis=-1)
    is_of_pairs = np.array_equal(values, quarter(size, [*range(0, size, 2)], [*range(1, size, 2)]))
    require(is_of_pairs, "the matrix must only rotate halves or neighbours by 90 degrees")
    first, second = (g.slice(x, [start], [np.iinfo(np.int64).max], [x.rank - 1], [2]) for start in (0, 1))
    pairs = g.concat(g.unsqueeze(g.neg(second), [-1]), g.unsqueeze(first, [-1]), axis=-1)
    return g.reshape(pairs, [0] * (x.rank - 1) + [size])
