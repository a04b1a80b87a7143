"""Running products: what fires and what does not."""

import pytest
from surgeon.patterns.lowering.cum_prod import cum_prod

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

# fmt: off
FIRES = [
    Case(cum_prod, "along the last axis", target="tensorrt",
         model=graph("y = CumProd(x, a)", "(float[n, 5] x) => (float[n, 5] y)", "int64 a = {1}", 26)),
    Case(cum_prod, "from the end, each without itself", target="tensorrt",
         model=graph("y = CumProd<reverse = 1, exclusive = 1>(x, a)", "(float[n, 5] x) => (float[n, 5] y)",
                     "int64 a = {-1}", 26)),
    Case(cum_prod, "of integers, each without itself", target="tensorrt",
         model=graph("y = CumProd<exclusive = 1>(x, a)", "(int32[4, n] x) => (int32[4, n] y)", "int64 a = {0}", 26)),
    Case(cum_prod, "of doubles, each without itself", target="tensorrt",
         model=graph("y = CumProd<exclusive = 1>(x, a)", "(double[n, 5] x) => (double[n, 5] y)", "int64 a = {1}", 26)),
    Case(cum_prod, "of free length", target="tensorrt",
         model=graph("y = CumProd(x, a)", "(float[n, 5] x) => (float[n, 5] y)", "int64 a = {0}", 26)),
    Case(cum_prod, "of free length, from the end, each without itself", target="tensorrt",
         model=graph("y = CumProd<reverse = 1, exclusive = 1>(x, a)", "(float[2, n, 3] x) => (float[2, n, 3] y)",
                     "int64 a = {1}", 26)),
]
NEGATIVES = [
    *(Case(cum_prod, f"of {dtype}, of free length", target="tensorrt", why="may not wrap on overflow",
           model=graph("y = CumProd(x, a)", f"({dtype}[n, 5] x) => ({dtype}[n, 5] y)", "int64 a = {0}", 26))
      for dtype in ("int32", "int64")),
    Case(cum_prod, "an axis that is an input", target="tensorrt", why="expected a constant",
         model=graph("y = CumProd(x, a)", "(float[n, 5] x, int64 a) => (float[n, 5] y)", "", 26)),
    Case(cum_prod, "of many elements", target="tensorrt", why="at most 256 elements",
         model=graph("y = CumProd(x, a)", "(float[999] x) => (float[999] y)", "int64 a = {0}", 26)),
    Case(cum_prod, "of nothing", target="tensorrt", why="the axis has no elements",
         model=graph("y = CumProd(x, a)", "(float[0] x) => (float[0] y)", "int64 a = {0}", 26)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
