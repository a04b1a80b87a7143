"""What a pooling picked, put back: what fires and what does not."""

import pytest
from surgeon.patterns.convolution.max_unpool import max_unpool

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

# fmt: off
FIRES = [
    Case(max_unpool, "windows side by side", target="tensorrt",
         model=graph("y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i)",
                     "(float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y)",
                     "int64[1, 1, 2, 2] i = {0, 3, 9, 15}", 11)),
    Case(max_unpool, "windows that overlap, of a line", target="tensorrt",
         model=graph("y = MaxUnpool<kernel_shape = [3]>(x, i)", "(float[2, 1, 3] x) => (float[2, 1, 5] y)",
                     "int64[2, 1, 3] i = {0, 2, 4, 5, 6, 9}", 11)),
]
NEGATIVES = [
    Case(max_unpool, "of free size", target="tensorrt", why="x has a dynamic size",
         model=graph("y = MaxUnpool<kernel_shape = [2, 2]>(x, i)",
                     "(float[n, 1, 2, 2] x, int64[n, 1, 2, 2] i) => (float[n, 1, 3, 3] y)",
                     "", 11)),
    Case(max_unpool, "ONNX Runtime has it", why="runs it as it is",
         model=graph("y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i)",
                     "(float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y)",
                     "int64[1, 1, 2, 2] i = {0, 3, 9, 15}", 11)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
