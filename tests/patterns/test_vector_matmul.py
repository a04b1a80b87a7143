"""A vector times several matrices: what fires and what does not."""

import pytest
from surgeon.patterns.linear_algebra.vector_matmul import vector_matmul

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

# fmt: off
FIRES = [
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
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
