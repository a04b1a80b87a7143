"""Unit matrices of free sizes: what fires and what does not."""

import pytest
from surgeon.patterns.lowering.eye_like import eye_like

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import check_parses, graph

FREE = "(float[n, m] x) => ({d}[n, m] y)"


def model(body, head=FREE, dtype="float", opset=17):
    return graph(body, head.replace("{d}", dtype), opset=opset)


# fmt: off
FIRES = [
    Case(eye_like, "of the dtype of its input", model("y = EyeLike(x)"), target="tensorrt"),
    Case(eye_like, "above the diagonal, of a dtype of its own", target="tensorrt",
         model=model("y = EyeLike<k = 2, dtype = 6>(x)", dtype="int32")),
    Case(eye_like, "below the diagonal, one size fixed", target="tensorrt",
         model=model("y = EyeLike<k = -1>(x)", "(float[4, m] x) => (float[4, m] y)")),
]
FURTHER = [
    Case(eye_like, "opset 11", model("y = EyeLike(x)", opset=11), target="tensorrt"),
]
NEGATIVES = [
    Case(eye_like, "fixed sizes", model("y = EyeLike(x)", "(float[3, 4] x) => (float[3, 4] y)"), target="tensorrt",
         why="its sizes are fixed"),
    Case(eye_like, "ONNX Runtime has it", model("y = EyeLike(x)"), why="no form for target ort"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_parses(case)


@pytest.mark.parametrize("case", FURTHER, ids=str)
def test_fires_too(case):
    """What TensorRT's parser is not asked about."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
