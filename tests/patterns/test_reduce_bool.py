"""Whether any or all of truths hold: what fires and what does not."""

import pytest
from surgeon.patterns.lowering.reduce_bool import reduce_bool

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

ONE = "int64[1] one = {1}, float high = {1}"

# fmt: off
FIRES = [
    Case(reduce_bool, "any along an axis", target="tensorrt",
         model=graph("t = Greater(x, high) y = ReduceMax<keepdims = 0>(t, one)",
                     "(float[n, 4] x) => (bool[n] y)", ONE, 20)),
    Case(reduce_bool, "all along an axis", target="tensorrt",
         model=graph("t = Less(x, high) y = ReduceMin<keepdims = 0>(t, one)",
                     "(float[n, 4] x) => (bool[n] y)", ONE, 20)),
    Case(reduce_bool, "any over all axes", target="tensorrt",
         model=graph("t = Greater(x, high) y = ReduceMax(t)", "(float[n] x) => (bool[1] y)", ONE, 20)),
]
NEGATIVES = [
    Case(reduce_bool, "numbers", target="tensorrt", why="its input must be boolean",
         model=graph("y = ReduceMax(x, one)", "(float[n, 4] x) => (float[n, 1] y)", ONE, 20)),
    Case(reduce_bool, "for another target", why="no form for target ort",
         model=graph("y = ReduceMax(x, one)", "(bool[n, 4] x) => (bool[n, 1] y)", ONE, 20)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
