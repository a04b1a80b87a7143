"""Determinants by elimination: what fires and what does not."""

import pytest
from surgeon.patterns.linear_algebra.det import det

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

# fmt: off
FIRES = [
    Case(det, "two rows", target="tensorrt",
         model=graph("y = Det(x)", "(float[2, 2] x) => (float y)")),
    Case(det, "a batch of three rows", target="tensorrt",
         model=graph("y = Det(x)", "(float[n, 3, 3] x) => (float[n] y)")),
    Case(det, "four rows", target="tensorrt",
         model=graph("y = Det(x)", "(float[2, 4, 4] x) => (float[2] y)")),
    Case(det, "one row", target="tensorrt",
         model=graph("y = Det(x)", "(float[n, 1, 1] x) => (float[n] y)")),
]
NEGATIVES = [
    Case(det, "five rows", target="tensorrt", why="the matrix has 5 rows",
         model=graph("y = Det(x)", "(float[5, 5] x) => (float y)")),
    Case(det, "of free size", target="tensorrt", why="",
         model=graph("y = Det(x)", "(float[n, n] x) => (float y)")),
    Case(det, "ONNX Runtime has it", why="runs it as it is",
         model=graph("y = Det(x)", "(float[3, 3] x) => (float y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
