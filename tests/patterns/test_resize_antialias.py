"""Resizing with antialiasing by products: what fires and what does not."""

import pytest
from surgeon.patterns.vision.resize_antialias import resize_antialias

import surgeon
from surgeon.edits import PrependImage
from surgeon.testing import Case, check_spares
from tests.patterns.tensorrt import check_parses, faults, graph

HERE = "(float[n, 3, 12, 9] x) => (float[n, 3, h, w] y)"
SIZES = "int64[4] sizes = {2, 3, 5, 4}, int64[2] two = {5, 14}, float[4] scales = {1, 1, 0.5, 0.4}"

# fmt: off
FIRES = [
    Case(resize_antialias, "linear, smaller", target="tensorrt",
         model=graph("y = Resize<mode = \"linear\", antialias = 1, exclude_outside = 1, axes = [2, 3]>(x, , , two)",
                     HERE, SIZES, 18)),
    Case(resize_antialias, "linear, by scales", target="tensorrt",
         model=graph("y = Resize<mode = \"linear\", antialias = 1>(x, , scales)", HERE, SIZES, 19)),
    Case(resize_antialias, "cubic, as torch has it", target="tensorrt",
         model=graph("y = Resize<mode = \"cubic\", antialias = 1, cubic_coeff_a = -0.5, axes = [2, 3]>(x, , , two)",
                     HERE, SIZES, 18)),
    Case(resize_antialias, "all axes named", target="tensorrt",
         model=graph("y = Resize<mode = \"linear\", antialias = 1>(x, , , sizes)",
                     "(float[2, 3, 12, 9] x) => (float[2, 3, 5, 4] y)", SIZES, 18)),
    Case(resize_antialias, "of any size", target="tensorrt",
         model=graph("y = Resize<mode = \"linear\", antialias = 1, exclude_outside = 1, axes = [2, 3]>(x, , , two)",
                     "(float[n, 3, h, w] x) => (float[n, 3, 5, 14] y)", SIZES, 18)),
]
NEGATIVES = [
    Case(resize_antialias, "without antialiasing", target="tensorrt", why="expected antialias = 1",
         model=graph("y = Resize<mode = \"linear\", axes = [2, 3]>(x, , , two)", HERE, SIZES, 18)),
    Case(resize_antialias, "corners aligned", target="tensorrt", why="expected coordinate_transformation_mode",
         model=graph("y = Resize<mode = \"linear\", antialias = 1, axes = [2, 3], "
                     "coordinate_transformation_mode = \"align_corners\">(x, , , two)", HERE, SIZES, 18)),
    Case(resize_antialias, "cubic, of any size", target="tensorrt", why="a dynamic size needs mode linear",
         model=graph("y = Resize<mode = \"cubic\", antialias = 1, axes = [2, 3]>(x, , , two)",
                     "(float[n, 3, h, w] x) => (float[n, 3, 5, 14] y)", SIZES, 18)),
    Case(resize_antialias, "ONNX Runtime has it", why="runs it as it is",
         model=graph("y = Resize<mode = \"linear\", antialias = 1, axes = [2, 3]>(x, , , two)", HERE, SIZES, 18)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_pictures_that_an_edit_put_in_front_go_to_tensorrt():
    """They come in any size and in uint8, and are resized inside of the model."""
    model = graph("y = Relu(x)", "(float[n, 3, 8, 6] x) => (float[n, 3, 8, 6] y)", "", 18)
    made, _ = surgeon.edit(model, PrependImage.parse("x,layout=NHWC,dtype=uint8,resize=8x6"))
    ready, report = surgeon.rewrite(made, "tensorrt", target="tensorrt")
    assert report.outcome == "proved"
    assert report.count("resize_antialias") == 1
    assert not faults(ready)
