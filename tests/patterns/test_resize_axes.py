"""Resizing along some axes beside free ones: what fires and what does not."""

import pytest
from surgeon.patterns.vision.resize_axes import resize_axes

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import check_parses, graph

FIXED, BATCH = "(float[2, 3, 12, 9] x) => (float[2, 3, h, w] y)", "(float[n, 3, 12, 9] x) => (float[n, 3, 8, 12] y)"
SETTINGS = "int64[2] two = {8, 12}, float[2] scales = {0.6, 1.7}"


def resize(inputs, settings, head):
    return graph(f'y = Resize<mode = "linear", {settings}>({inputs})', head, SETTINGS, 19)


FOR = {"target": "tensorrt"}
# fmt: off
FIRES = [
    Case(resize_axes, "a free batch", resize("x, , , two", "axes = [2, 3]", BATCH), **FOR),
    Case(resize_axes, "all sizes free, in another order", **FOR,
         model=resize("x, , , two", "axes = [-1, 2]", "(float[n, 3, h, w] x) => (float[n, 3, k, l] y)")),
]
NEGATIVES = [
    Case(resize_axes, "the others are fixed", resize("x, , , two", "axes = [2, 3]", FIXED), why="runs it", **FOR),
    Case(resize_axes, "the ratio of the sides is kept", why="keeps the aspect ratio", **FOR,
         model=resize("x, , , two", 'axes = [2, 3], keep_aspect_ratio_policy = "not_larger"',
                      "(float[n, 3, 12, 9] x) => (float[n, 3, h, w] y)")),
    Case(resize_axes, "all axes, in a mode that it does not know either", why="it has no axes", **FOR,
         model=graph('y = Resize<mode = "cubic">(x, , four)', FIXED, "float[4] four = {1, 1, 0.6, 1.7}", 19)),
    Case(resize_axes, "sizes that are computed", why="runs it as it is", **FOR,
         model=graph('z = Shape<start = 2>(p) y = Resize<mode = "linear", axes = [2, 3]>(x, , , z)',
                     "(float[n, 3, h, w] x, float[n, 3, k, l] p) => (float[n, 3, k, l] y)", "", 19)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case, "SM86")


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_scales_of_some_axes_are_of_all():
    """TensorRT-RTX takes them as they are, the documentation of full TensorRT does not."""
    case = Case(resize_axes, "scales", resize("x, , scales", "axes = [2, 3]", FIXED), check=True, **FOR)
    check_fires(case)
