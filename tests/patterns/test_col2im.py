"""Columns put together to images: what fires and what does not."""

import pytest
from surgeon.patterns.convolution.col2im import col2im

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

# fmt: off
FIRES = [
    Case(col2im, "rows", target="tensorrt",
         model=graph("y = Col2Im(x, i, b)", "(float[n, 5, 5] x) => (float[n, 1, 5, 5] y)",
                     "int64[2] i = {5, 5}, int64[2] b = {1, 5}", 18)),
    Case(col2im, "blocks that overlap, with strides and pads", target="tensorrt",
         model=graph("y = Col2Im<strides = [2, 2], pads = [1, 0, 0, 1]>(x, i, b)",
                     "(float[n, 27, 9] x) => (float[n, 3, 6, 6] y)",
                     "int64[2] i = {6, 6}, int64[2] b = {3, 3}", 18)),
    Case(col2im, "with dilations", target="tensorrt",
         model=graph("y = Col2Im<dilations = [1, 2]>(x, i, b)", "(float[n, 12, 20] x) => (float[n, 3, 6, 6] y)",
                     "int64[2] i = {6, 6}, int64[2] b = {2, 2}", 18)),
]
NEGATIVES = [
    Case(col2im, "with strides and dilations", target="tensorrt", why="both strides and dilations",
         model=graph("y = Col2Im<strides = [2, 2], dilations = [1, 2]>(x, i, b)",
                     "(float[n, 12, 9] x) => (float[n, 3, 6, 6] y)",
                     "int64[2] i = {6, 6}, int64[2] b = {2, 2}", 18)),
    Case(col2im, "of sizes that are computed", target="tensorrt", why="",
         model=graph("y = Col2Im(x, i, b)", "(float[n, 5, 5] x, int64[2] i) => (float[n, 1, 5, 5] y)",
                     "int64[2] b = {1, 5}", 18)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
