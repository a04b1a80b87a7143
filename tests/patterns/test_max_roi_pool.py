"""The largest numbers of parts of regions: what fires and what does not."""

import pytest
from surgeon.patterns.vision.max_roi_pool import max_roi_pool

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

BOXES = "float[3, 5] r = {0, 0, 0, 5, 4, 0, 2.5, 1.5, 6, 7, 0, -3, 6, 1, 20}"

# fmt: off
FIRES = [
    Case(max_roi_pool, "regions that reach beyond the end", target="tensorrt",
         model=graph("y = MaxRoiPool<pooled_shape = [2, 3]>(x, r)", "(float[1, 2, 8, 7] x) => (float[3, 2, 2, 3] y)",
                     BOXES, 17)),
    Case(max_roi_pool, "of pictures half as large", target="tensorrt",
         model=graph("y = MaxRoiPool<pooled_shape = [1, 2], spatial_scale = 0.5>(x, r)",
                     "(float[1, 2, 4, 4] x) => (float[3, 2, 1, 2] y)", BOXES, 13)),
]
NEGATIVES = [
    Case(max_roi_pool, "ONNX Runtime has it", why="runs it as it is",
         model=graph("y = MaxRoiPool<pooled_shape = [2, 3]>(x, r)", "(float[1, 2, 8, 7] x) => (float[3, 2, 2, 3] y)",
                     BOXES, 17)),
    Case(max_roi_pool, "pictures of no rank", target="tensorrt", why="the rank of the images",
         model=graph("s = Reshape(x, to) y = MaxRoiPool<pooled_shape = [2, 3]>(s, r)",
                     "(float[1, 2, 8, 7] x, int64[k] to) => (float[3, 2, 2, 3] y)", BOXES, 17)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
