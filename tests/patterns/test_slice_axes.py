"""Slices that do not name their axes: what fires and what does not."""

import pytest
from surgeon.patterns.lowering.slice_axes import slice_axes

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

# fmt: off
FIRES = [
    Case(slice_axes, "the first of two", target="tensorrt",
         model=graph("y = Slice(x, s, e)", "(float[2, 4] x) => (float[1, 4] y)", "int64[1] s = {1}, int64[1] e = {2}")),
]
NEGATIVES = [
    Case(slice_axes, "all of them", target="tensorrt", why="it slices all axes",
         model=graph("y = Slice(x, s, e)", "(float[2, 4] x) => (float[1, 2] y)",
                     "int64[2] s = {1, 0}, int64[2] e = {2, 2}")),
    Case(slice_axes, "for another target", why="no form for target ort",
         model=graph("y = Slice(x, s, e)", "(float[2, 4] x) => (float[1, 4] y)", "int64[1] s = {1}, int64[1] e = {2}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
