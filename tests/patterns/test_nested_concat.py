"""Concat of Concats: what fires and what does not."""

import pytest
from surgeon.patterns.cleanup.slice_of_concat import nested_concat

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import graph

TWO = "(float[n, 4] x, float[n, 3] z) => (float[n, k] y)"

# fmt: off
FIRES = [
    Case(nested_concat, "the first", graph("c = Concat<axis = 1>(x, z) y = Concat<axis = -1>(c, x)", TWO)),
    Case(nested_concat, "the last", graph("c = Concat<axis = 1>(x, z) y = Concat<axis = 1>(z, c)", TWO)),
    Case(nested_concat, "several",
         model=graph("c = Concat<axis = 1>(x, z) d = Concat<axis = 1>(z, z) y = Concat<axis = 1>(c, x, d, z)", TWO)),
    Case(nested_concat, "one in the other",
         model=graph("c = Concat<axis = 1>(x, z) d = Concat<axis = 1>(z, c) y = Concat<axis = 1>(d, x)", TWO)),
]
NEGATIVES = [
    Case(nested_concat, "along another axis", why="",
         model=graph("c = Concat<axis = 0>(x, x) y = Concat<axis = 1>(c, c)", "(float[n, 4] x) => (float[m, 8] y)")),
    Case(nested_concat, "another node reads the inner one", why="",
         model=graph("c = Concat<axis = 1>(x, z) d = Relu(c) y = Concat<axis = 1>(c, d)", TWO)),
    Case(nested_concat, "the inner one is an output", why="",
         model=graph("c = Concat<axis = 1>(x, z) y = Concat<axis = 1>(c, x)",
                     "(float[n, 4] x, float[n, 3] z) => (float[n, 11] y, float[n, 7] c)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
