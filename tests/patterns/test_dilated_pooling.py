"""Pooling by slices: what fires and what does not."""

import pytest
from surgeon.patterns.convolution.dilated_pooling import dilated_average_pool, dilated_max_pool, lp_pool

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

PICTURE = "(float[n, 2, 7, 8] x) => (float[n, 2, h, w] y)"

# fmt: off
FIRES = [
    Case(dilated_max_pool, "gaps, strides and pads", target="tensorrt",
         model=graph("y = MaxPool<kernel_shape = [2, 3], dilations = [2, 1], strides = [2, 1], pads = [1, 0, 0, 1]>(x)",
                     PICTURE,
                     "", 18)),
    Case(dilated_average_pool, "gaps, and pads that do not count", target="tensorrt",
         model=graph("y = AveragePool<kernel_shape = [2, 2], dilations = [2, 2], pads = [1, 0, 0, 1]>(x)", PICTURE,
                     "", 19)),
    Case(dilated_average_pool, "gaps, of windows that end where the picture does", target="tensorrt",
         model=graph("y = AveragePool<kernel_shape = [2, 3], dilations = [2, 2], strides = [2, 3], ceil_mode = 1>(x)",
                     PICTURE, "", 19)),
    Case(dilated_average_pool, "gaps, and pads that count", target="tensorrt",
         model=graph("y = AveragePool<kernel_shape = [2, 2], dilations = [2, 2], pads = [1, 0, 0, 1], "
                     "count_include_pad = 1>(x)",
                     PICTURE, "", 19)),
    Case(dilated_average_pool, "gaps, of pictures of any size", target="tensorrt",
         model=graph("y = AveragePool<kernel_shape = [2, 2], dilations = [2, 2]>(x)",
                     "(float[n, 2, h, w] x) => (float[n, 2, i, j] y)",
                     "", 19)),
    Case(lp_pool, "third powers, with pads", target="tensorrt",
         model=graph("y = LpPool<kernel_shape = [2, 2], p = 3, pads = [1, 1, 1, 1]>(x)", PICTURE, "", 18)),
    *(Case(lp_pool, f"third powers, pads that follow from the sizes: {how}", target="tensorrt",
           model=graph(f'y = LpPool<kernel_shape = [2, 2], strides = [2, 1], p = 3, auto_pad = "{how}">(x)', PICTURE,
                       "", 18))
      for how in ("SAME_UPPER", "SAME_LOWER", "VALID")),
    Case(lp_pool, "third powers along a line", target="tensorrt",
         model=graph("y = LpPool<kernel_shape = [2], p = 3>(x)", "(float[n, 2, 7] x) => (float[n, 2, h] y)", "", 18)),
]
NEGATIVES = [
    Case(dilated_max_pool, "no gaps", target="tensorrt", why="runs it as it is",
         model=graph("y = MaxPool<kernel_shape = [2, 3]>(x)", PICTURE, "", 18)),
    Case(dilated_max_pool, "windows beyond the end", target="tensorrt", why="beyond the padded input",
         model=graph("y = MaxPool<kernel_shape = [2, 3], dilations = [2, 1], strides = [2, 2], ceil_mode = 1>(x)",
                     PICTURE, "", 18)),
    Case(dilated_average_pool, "large windows", target="tensorrt", why="more than 64 elements",
         model=graph("y = AveragePool<kernel_shape = [9, 9], dilations = [2, 2]>(x)",
                     "(float[n, 2, 40, 40] x) => (float[n, 2, h, w] y)",
                     "", 19)),
    Case(lp_pool, "pads that follow from a free size", target="tensorrt", why="a dynamic size",
         model=graph('y = LpPool<kernel_shape = [2, 2], p = 3, auto_pad = "SAME_UPPER">(x)',
                     "(float[n, 2, h, 8] x) => (float[n, 2, i, j] y)", "", 18)),
    Case(dilated_max_pool, "gaps, pads that follow from the sizes", target="tensorrt", why="auto_pad differently",
         model=graph('y = MaxPool<kernel_shape = [2, 3], dilations = [2, 2], auto_pad = "SAME_LOWER">(x)', PICTURE,
                     "", 18)),
    Case(lp_pool, "second powers", target="tensorrt", why="runs it as it is",
         model=graph("y = LpPool<kernel_shape = [2, 2]>(x)", PICTURE, "", 18)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
