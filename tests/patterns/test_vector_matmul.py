"""A vector times one or several matrices: what fires and what does not."""

import pytest
from surgeon.patterns.linear_algebra.vector_matmul import vector_matmul, vector_product

from surgeon.testing import Case, check_fires, check_spares, parse
from tests.patterns.tensorrt import check_parses, graph

SHAPES = (
    "int64[2] row = {1, -1}, int64[2] column = {-1, 1}, int64[2] two = {2, 2}, int64[3] batch = {2, 3, 5}, "
    "int64[1] flat = {-1}, int64[3] same = {2, 1, 5}"
)


def between(body, head):
    """Products between Reshapes."""
    return parse(f"{head} <{SHAPES}> {{ {body} }}")


BATCH = "(float[4] x, float[2, 3, 4, 5] w) => (float[2, 3, 5] y)"
# fmt: off
FIRES = [
    Case(vector_product, "a row by a batch of matrices",
         between("r = Reshape(x, row) p = MatMul(r, w) y = Reshape(p, batch)", BATCH)),
    Case(vector_product, "a row by one matrix, with dynamic sizes",
         between("r = Reshape(x, row) p = MatMul(r, w) y = Reshape(p, flat)",
                 "(float[k] x, float[k, m] w) => (float[m] y)")),
    Case(vector_product, "a column that another node reads",
         between("c = Reshape(x, column) p = MatMul(w, c) y = Reshape(p, batch) z = Neg(c)",
                 "(float[4] x, float[2, 3, 5, 4] w) => (float[2, 3, 5] y, float[4, 1] z)")),
    Case(vector_matmul, "three axes", target="tensorrt",
         model=graph("y = MatMul(x, z)", "(float[4] x, float[2, 4, 3] z) => (float[2, 3] y)")),
    Case(vector_matmul, "four axes", target="tensorrt",
         model=graph("y = MatMul(x, z)", "(float[5] x, float[2, 3, 5, 1] z) => (float[2, 3, 1] y)")),
]
NEGATIVES = [
    Case(vector_matmul, "one matrix", target="tensorrt", why="the right factor must be a batch of matrices",
         model=graph("y = MatMul(x, z)", "(float[k] x, float[k, m] z) => (float[m] y)")),
    Case(vector_matmul, "matrices on both sides", target="tensorrt", why="the left factor must be a vector",
         model=graph("y = MatMul(x, z)", "(float[2, k] x, float[n, k, m] z) => (float[n, 2, m] y)")),
    Case(vector_product, "two rows", why="must become a row on the left",
         model=between("r = Reshape(x, two) p = MatMul(r, w) y = Reshape(p, flat)",
                       "(float[4] x, float[2, m] w) => (float[k] y)")),
    Case(vector_product, "a column on the left", why="must become a row on the left",
         model=between("c = Reshape(x, column) p = MatMul(c, w) y = Reshape(p, flat)",
                       "(float[4] x, float[1, m] w) => (float[k] y)")),
    Case(vector_product, "the product keeps the axis of the row", why="must remove only the axis",
         model=between("r = Reshape(x, row) p = MatMul(r, w) y = Reshape(p, same)",
                       "(float[4] x, float[2, 4, 5] w) => (float[2, 1, 5] y)")),
    Case(vector_product, "two vectors", why="must be a matrix",
         model=between("r = Reshape(x, row) p = MatMul(r, w) y = Reshape(p, row)",
                       "(float[4] x, float[4] w) => (float[1, 1] y)")),
    Case(vector_product, "a matrix that is flattened", why="must be a vector",
         model=between("r = Reshape(x, row) p = MatMul(r, w) y = Reshape(p, flat)",
                       "(float[2, 2] x, float[4, m] w) => (float[m] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case) if case.target == "tensorrt" else check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
