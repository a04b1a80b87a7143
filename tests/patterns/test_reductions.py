"""Reductions that are a function of a sum: what fires and what does not."""

import pytest
from surgeon.patterns.linear_algebra.reductions import reductions

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import graph

ROWS = "(float[n, 4] x) => (float[n, 1] y)"
FLAT = "(float[n, 4] x) => (float[n] y)"
LAST = "int64[1] last = {-1}, float two = {2}, float three = {3}"

# fmt: off
FIRES = [
    Case(reductions, "over all axes", graph("a = Abs(x) y = ReduceSum(a)", "(float[n, 4] x) => (float[1, 1] y)")),
    Case(reductions, "a product", graph("a = Mul(x, x) y = ReduceSum(a, last)", ROWS, LAST)),
    Case(reductions, "a power", graph("a = Pow(x, two) y = ReduceSum<keepdims = 0>(a, last)", FLAT, LAST)),
    Case(reductions, "the function body", graph("a = Mul(x, x) b = ReduceSum(a, last) y = Sqrt(b)", ROWS, LAST, 18)),
    Case(reductions, "of a sum of squares, with axes as an attribute",
         model=graph("a = ReduceSumSquare<axes = [1]>(x) y = Sqrt(a)", ROWS)),
    Case(reductions, "over the last axis",
         model=graph("e = Exp(x) a = ReduceSum<keepdims = 0>(e, last) y = Log(a)", FLAT, LAST)),
]
NEGATIVES = [
    Case(reductions, "no absolute values", graph("y = ReduceSum(x, last)", ROWS, LAST), why=""),
    Case(reductions, "a cube", graph("a = Pow(x, three) y = ReduceSum(a, last)", ROWS, LAST), why=""),
    Case(reductions, "a product of two",
         model=graph("a = Mul(x, z) y = ReduceSum(a, last)", "(float[n, 4] x, float[n, 4] z) => (float[n, 1] y)", LAST),
         why=""),
    Case(reductions, "integers, which ONNX Runtime would compute in floating point", why="supports only",
         model=graph("a = Mul(x, x) y = ReduceSum(a, last)", "(int64[n, 4] x) => (int64[n, 1] y)", LAST)),
    Case(reductions, "without axes it reduces nothing", why="noop_with_empty_axes",
         model=graph("a = Mul(x, x) y = ReduceSum<noop_with_empty_axes = 1>(a)", "(float[n, 4] x) => (float[n, 4] y)")),
    Case(reductions, "a mean", graph("a = Mul(x, x) b = ReduceMean<axes = [1]>(a) y = Sqrt(b)", ROWS), why=""),
    Case(reductions, "doubles, for which few kernels exist", why="supports only",
         model=graph("a = Mul(x, x) b = ReduceSum(a, last) y = Sqrt(b)", "(double[n, 4] x) => (double[n, 1] y)", LAST)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
