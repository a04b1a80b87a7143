"""Pairs of formulas of shapes, sums and products that are equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.mutation.algebra import FLOATS, INTEGERS, PLANE, SQUARE, THREE, equal, turned
from tests.mutation.planting import size

# Shapes.
equal(
    "two transposes",
    lambda g, x: g.transpose(g.transpose(x, perm=[1, 2, 0]), perm=[2, 0, 1]),
    lambda g, x: g.identity(x),
    shapes=THREE,
)
equal(
    "transposes joined",
    lambda g, x: g.transpose(g.transpose(x, perm=[1, 0, 2]), perm=[2, 0, 1]),
    lambda g, x: g.transpose(x, perm=[2, 1, 0]),
    shapes=THREE,
)
equal("an axis put in and out", lambda g, x: g.squeeze(g.unsqueeze(x, [1]), [1]), lambda g, x: g.identity(x))
equal(
    "two axes at once",
    lambda g, x: g.unsqueeze(g.unsqueeze(x, [0]), [2]),
    lambda g, x: g.unsqueeze(x, [0, 2]),
    shapes=PLANE,
)
equal(
    "flat by a reshape",
    lambda g, x: g.flatten(x, axis=1),
    lambda g, x: g.reshape(x, [0, -1]),
    shapes=((2, 3, 4), ("b", 3, 4)),
)
equal(
    "reshaped twice",
    lambda g, x: g.reshape(g.reshape(x, [-1]), [-1, 2]),
    lambda g, x: g.reshape(x, [-1, 2]),
    shapes=((2, 3, 4), ("b", "s", 4)),
)
equal(
    "sliced twice",
    lambda g, x: g.slice(g.slice(x, [1], [9], [1]), [1], [9], [1]),
    lambda g, x: g.slice(x, [2], [9], [1]),
    shapes=THREE,
)
equal("turned round twice", lambda g, x: turned(g, turned(g, x)), lambda g, x: g.identity(x), both=False)
equal(
    "cut and joined",
    lambda g, x: g.concat(g.slice(x, [0], [2], [-1]), g.slice(x, [2], [1 << 40], [-1]), axis=-1),
    lambda g, x: g.identity(x),
)
equal(
    "joined from three",
    lambda g, a, b, c: g.concat(g.concat(a, b, axis=0), c, axis=0),
    lambda g, a, b, c: g.concat(a, b, c, axis=0),
    "xxx",
)
equal("copies by joining", lambda g, x: g.concat(x, x, axis=-1), lambda g, x: g.tile(x, [1, 2]), shapes=PLANE)
equal(
    "spread by a product",
    lambda g, x: g.expand(g.unsqueeze(x, [0]), [3, 1, 1]),
    lambda g, x: g.mul(g.unsqueeze(x, [0]), np.ones((3, 1, 1))),
    shapes=PLANE,
    dtypes=FLOATS,
)
equal(
    "the first column",
    lambda g, x: g.gather(x, np.array(0), axis=1),
    lambda g, x: g.squeeze(g.slice(x, [0], [1], [1]), [1]),
)
equal(
    "the last column",
    lambda g, x: g.gather(x, np.array(-1), axis=1),
    lambda g, x: g.squeeze(g.slice(x, [-1], [1 << 40], [1]), [1]),
)
equal(
    "columns in another order",
    lambda g, x: g.gather(x, np.array([3, 2, 1, 0]), axis=-1),
    lambda g, x: turned(g, x),
    shapes=((2, 3, 4), ("b", "s", 4)),
)
equal(
    "the lower half",
    lambda g, x: g.trilu(x, upper=0),
    lambda g, x: g.where(_lower(g, x), x, 0),
    shapes=((4, 4), ("b", 4, 4)),
)
# Sums.
equal(
    "a sum over two axes",
    lambda g, x: g.reduce_sum(x, axes=[0, 1], keepdims=1),
    lambda g, x: g.reduce_sum(g.reduce_sum(x, axes=[0], keepdims=1), axes=[1], keepdims=1),
)
equal(
    "a maximum over two axes",
    lambda g, x: g.reduce_max(x, axes=[0, 1], keepdims=0),
    lambda g, x: g.reduce_max(g.reduce_max(x, axes=[0], keepdims=0), axes=[0], keepdims=0),
)
equal(
    "a mean over two axes",
    lambda g, x: g.reduce_mean(x, axes=[1, 2], keepdims=1),
    lambda g, x: g.reduce_mean(g.reduce_mean(x, axes=[1], keepdims=1), axes=[2], keepdims=1),
    shapes=THREE,
    dtypes=FLOATS,
)
equal(
    "a mean by a sum",
    lambda g, x: g.reduce_mean(x, axes=[-1], keepdims=1),
    lambda g, x: g.div(g.reduce_sum(x, axes=[-1], keepdims=1), 4.0),
    shapes=((2, 3, 4), ("b", "s", 4)),
    dtypes=FLOATS,
)
equal(
    "a sum by a product",
    lambda g, x: g.reduce_sum(x, axes=[-1], keepdims=1),
    lambda g, x: g.matmul(x, np.ones((4, 1))),
    shapes=((2, 3, 4), ("b", "s", 4)),
    dtypes=("float32", "float64"),
)
equal(
    "a sum of squares",
    lambda g, x: g.reduce_sum_square(x, axes=[-1], keepdims=1),
    lambda g, x: g.reduce_sum(g.mul(x, x), axes=[-1], keepdims=1),
    dtypes=("float32", "float64"),
)
equal(
    "the length of a row",
    lambda g, x: g.reduce_l2(x, axes=[-1], keepdims=1),
    lambda g, x: g.sqrt(g.reduce_sum(g.mul(x, x), axes=[-1], keepdims=1)),
    dtypes=("float32", "float64"),
)
equal(
    "a sum of absolutes",
    lambda g, x: g.reduce_l1(x, axes=[-1], keepdims=1),
    lambda g, x: g.reduce_sum(g.abs(x), axes=[-1], keepdims=1),
    dtypes=("float32", "float64"),
)
equal(
    "a running sum of whole numbers",
    lambda g, x: g.cum_sum(x, np.array(1)),
    lambda g, x: turned(g, g.cum_sum(turned(g, x, 1), np.array(1), reverse=1), 1),
    shapes=PLANE,
    dtypes=INTEGERS,
)
equal(
    "a sum of sums",
    lambda g, a, b: g.add(g.reduce_sum(a, axes=[-1], keepdims=1), g.reduce_sum(b, axes=[-1], keepdims=1)),
    lambda g, a, b: g.reduce_sum(g.concat(a, b, axis=-1), axes=[-1], keepdims=1),
    "xx",
    dtypes=INTEGERS,
)
# Products.
equal(
    "a transposed product",
    lambda g, a, b: g.transpose(g.matmul(a, b), perm=[1, 0]),
    lambda g, a, b: g.matmul(g.transpose(b, perm=[1, 0]), g.transpose(a, perm=[1, 0])),
    "xx",
    FLOATS,
    ((4, 4), (3, 3)),
)
equal(
    "gemm",
    lambda g, a, b, c: g.gemm(a, b, c),
    lambda g, a, b, c: g.add(g.matmul(a, b), c),
    "xxx",
    ("float32", "float64"),
    ((4, 4), (3, 3)),
)
equal(
    "a product by einsum",
    lambda g, a, b: g.matmul(a, b),
    lambda g, a, b: g.einsum(a, b, equation="...ij,...jk->...ik"),
    "xx",
    ("float32", "float64"),
    SQUARE,
)
equal(
    "a factor moved in a product",
    lambda g, a, b: g.mul(g.matmul(a, b), 0.25),
    lambda g, a, b: g.matmul(g.mul(a, 0.25), b),
    "xx",
    ("float32", "float64"),
    SQUARE,
)
equal(
    "a scaled product",
    lambda g, a, b: g.div(g.matmul(a, b), 3.0),
    lambda g, a, b: g.mul(g.matmul(a, b), 1 / 3),
    "xx",
    ("float32", "float64"),
    SQUARE,
)


def _lower(g: Any, x: Any) -> Any:
    rows = g.unsqueeze(g.range(0, size(g, x, -2), 1), [1])
    return g.greater_or_equal(rows, g.range(0, size(g, x, -1), 1))
