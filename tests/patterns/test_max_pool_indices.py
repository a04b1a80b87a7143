"""Where a pooling picked: what fires and what does not."""

import pytest
from surgeon.patterns.convolution.max_pool_indices import max_pool_indices
from surgeon.patterns.convolution.max_unpool import max_unpool

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

HEAD = "(float[n, 2, 6, 7] x) => (float[n, 2, h, w] y, int64[n, 2, h, w] i)"

# fmt: off
FIRES = [
    Case(max_pool_indices, "windows side by side", target="tensorrt",
         model=graph("y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)", HEAD, "", 17)),
    Case(max_pool_indices, "strides and pads", target="tensorrt",
         model=graph("y, i = MaxPool<kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]>(x)", HEAD, "", 17)),
    Case(max_pool_indices, "gaps", target="tensorrt",
         model=graph("y, i = MaxPool<kernel_shape = [2, 2], dilations = [2, 3]>(x)", HEAD, "", 17)),
    Case(max_pool_indices, "of a line", target="tensorrt",
         model=graph("y, i = MaxPool<kernel_shape = [3]>(x)",
                     "(float[1, 3, 8] x) => (float[1, 3, 6] y, int64[1, 3, 6] i)", "", 17)),
    Case([max_pool_indices, max_unpool], "picked and put back, as SegNet does", target="tensorrt",
         model=graph("p, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)  e = Exp(p)"
                     "  y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(e, i)",
                     "(float[2, 2, 4, 6] x) => (float[2, 2, 4, 6] y)", "", 17), sites=2),
]
NEGATIVES = [
    Case(max_pool_indices, "nobody asks where", target="tensorrt", why="expected output 1",
         model=graph("y = MaxPool<kernel_shape = [2, 2]>(x)", HEAD.split(", int64")[0] + ")", "", 17)),
    Case(max_pool_indices, "pictures of any size", target="tensorrt", why="is not fixed",
         model=graph("y, i = MaxPool<kernel_shape = [2, 2]>(x)",
                     "(float[n, 2, h, 7] x) => (float[n, 2, k, 6] y, int64[n, 2, k, 6] i)", "", 17)),
    Case(max_pool_indices, "columns first", target="tensorrt", why="columns first",
         model=graph("y, i = MaxPool<kernel_shape = [2, 2], storage_order = 1>(x)", HEAD, "", 17)),
    Case(max_pool_indices, "ONNX Runtime has it", why="runs it as it is",
         model=graph("y, i = MaxPool<kernel_shape = [2, 2]>(x)", HEAD, "", 17)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
