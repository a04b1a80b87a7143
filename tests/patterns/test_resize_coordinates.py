"""Resizing to sizes and at places that TensorRT does not know: what fires and what does not."""

import pytest
from surgeon.patterns.vision.resize_coordinates import resize_coordinates

from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, graph

HERE = "(float[2, 3, 12, 9] x) => (float[2, 3, h, w] y)"
SETTINGS = (
    "int64[4] sizes = {2, 3, 5, 4}, int64[2] two = {8, 12}, float[4] scales = {1, 1, 0.6, 1.7}, "
    "float[4] roi = {0.2, -0.1, 0.7, 1.2}, float[4] within = {0.1, 0.2, 0.9, 0.8}, int64[2] one = {1, 1}"
)
AXES = "axes = [2, 3]"


def resize(inputs, settings, head=HERE, opset=19):
    return graph(f"y = Resize<{settings}>({inputs})", head, SETTINGS, opset)


def placed(kind):
    return f'coordinate_transformation_mode = "{kind}"'


CROP = placed("tf_crop_and_resize")
SYMMETRIC = placed("half_pixel_symmetric")
FOR = {"target": "tensorrt"}
# fmt: off
FIRES = [
    Case(resize_coordinates, "symmetric, sizes, which is half a pixel, of free sizes", **FOR,
         model=resize("x, , , two", f'mode = "linear", {AXES}, {SYMMETRIC}',
                      "(float[2, 3, h, w] x) => (float[2, 3, 8, 12] y)")),
    Case(resize_coordinates, "symmetric, scales", resize("x, , scales", f'mode = "linear", {SYMMETRIC}'), **FOR),
    Case(resize_coordinates, "symmetric, scales, cubic", resize("x, , scales", f'mode = "cubic", {SYMMETRIC}'), **FOR),
    Case(resize_coordinates, "symmetric, nearest", resize("x, , scales", f'mode = "nearest", {SYMMETRIC}'), **FOR),
    *(Case(resize_coordinates, f"as large as fits, {mode}, {place}", **FOR,
           model=resize("x, , , two", f'mode = "{mode}", {AXES}, keep_aspect_ratio_policy = "not_larger", '
                                      f"{placed(place)}"))
      for mode, place in (("linear", "half_pixel"), ("nearest", "asymmetric"), ("cubic", "align_corners"))),
    Case(resize_coordinates, "large enough", **FOR,
         model=resize("x, , , two", f'mode = "linear", {AXES}, keep_aspect_ratio_policy = "not_smaller"')),
    *(Case(resize_coordinates, f"nearest, {how}", **FOR,
           model=resize("x, , , two", f'mode = "nearest", {AXES}, nearest_mode = "{how}", '
                                      'keep_aspect_ratio_policy = "not_smaller"'))
      for how in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
    Case(resize_coordinates, "cut out", **FOR,
         model=resize("x, within, , two", f'mode = "linear", {AXES}, {CROP}')),
    Case(resize_coordinates, "cut out beyond the edges, which are of a value", **FOR,
         model=resize("x, roi, , two", f'mode = "linear", {AXES}, {CROP}, extrapolation_value = 7.5')),
    Case(resize_coordinates, "cut out, nearest", **FOR,
         model=resize("x, roi, , two", f'mode = "nearest", {AXES}, {CROP}')),
    Case(resize_coordinates, "cut out, one pixel", **FOR,
         model=resize("x, within, , one", f'mode = "linear", {AXES}, {CROP}')),
]
NEGATIVES = [
    Case(resize_coordinates, "places that it knows", why="runs it as it is", **FOR,
         model=resize("x, , scales", f'mode = "linear", {placed("align_corners")}')),
    Case(resize_coordinates, "with antialiasing", why="antialiases", **FOR,
         model=resize("x, , scales", f'mode = "linear", antialias = 1, {SYMMETRIC}')),
    Case(resize_coordinates, "a free size", why="a size is dynamic", **FOR,
         model=resize("x, , scales", f'mode = "linear", {SYMMETRIC}',
                      "(float[2, 3, h, 9] x) => (float[2, 3, k, w] y)")),
    Case(resize_coordinates, "what is cut out is an input", why="region", **FOR,
         model=resize("x, r, , two", f'mode = "linear", {AXES}, {CROP}',
                      "(float[2, 3, 12, 9] x, float[4] r) => (float[2, 3, 8, 12] y)")),
    Case(resize_coordinates, "channels change", why="only the last two axes", **FOR,
         model=graph(f'y = Resize<mode = "linear", {SYMMETRIC}>(x, , s)',
                     "(float[1, 4, 6, 6] x) => (float[1, c, 6, 6] y)", "float[4] s = {1, 0.6, 1, 1}", 19)),
    Case(resize_coordinates, "ONNX Runtime has it", why="runs it as it is",
         model=resize("x, , scales", f'mode = "linear", {SYMMETRIC}')),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
