"""Elements picked by a fixed condition: what fires and what does not."""

import pytest
from surgeon.patterns.lowering.compress import compress

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

# fmt: off
FIRES = [
    Case(compress, "along an axis", target="tensorrt",
         model=graph("y = Compress<axis = 1>(x, c)", "(float[n, 5] x) => (float[n, 3] y)",
                     "bool[5] c = {1, 0, 1, 0, 1}")),
    Case(compress, "of all elements in a row", target="tensorrt",
         model=graph("y = Compress(x, c)", "(float[2, 5] x) => (float[2] y)", "bool[4] c = {1, 0, 0, 1}")),
]
NEGATIVES = [
    Case(compress, "a condition that is computed", target="tensorrt", why="",
         model=graph("y = Compress<axis = 1>(x, c)", "(float[n, 5] x, bool[5] c) => (float[n, m] y)")),
    Case(compress, "a condition that is longer than its axis", target="tensorrt", why="longer than the axis",
         model=graph("y = Compress<axis = 1>(x, c)", "(float[n, 2] x) => (float[n, 2] y)", "bool[3] c = {1, 0, 1}")),
    Case(compress, "a free axis", target="tensorrt", why="is not fixed",
         model=graph("y = Compress<axis = 0>(x, c)", "(float[n, 2] x) => (float[m, 2] y)", "bool[3] c = {1, 0, 1}")),
    Case(compress, "nothing is picked", target="tensorrt", why="false everywhere",
         model=graph("y = Compress<axis = 1>(x, c)", "(float[n, 2] x) => (float[n, 0] y)", "bool[2] c = {0, 0}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
