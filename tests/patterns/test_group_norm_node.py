"""The group_norm_node rule: what fires and what does not."""

import onnx
import pytest
from surgeon.patterns.norms.group_norm_node import group_norm_node

from surgeon.testing import Case, check_fires, check_spares

VECTOR = "{1, 2, 3, 4, -1, -2, -3, -4}"


def model(attributes, shape="b, 8, 3, 5", kind="float"):
    """A GroupNorm of eight channels in two groups, the channels at the place that the shape has 8 at."""
    header = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
    last = int(shape.endswith("8"))
    node = f"y = com.microsoft.GroupNorm<groups = 2, channels_last = {last}, {attributes}>(x, w, c)"
    constants = f"<float[8] w = {VECTOR}, float[8] c = {VECTOR}>"
    text = f"{header} g ({kind}[{shape}] x) => ({kind}[{shape}] y) {constants} {{ {node} }}"
    return onnx.parser.parse_model(text)


# No kernel of a CPU runs the node: a site is proved by what the op is in ONNX's own ops.
FIRES = [
    Case(group_norm_node, "channels first", model("activation = 0"), target="onnx", check="sites"),
    Case(group_norm_node, "a SiLU", model("activation = 1, epsilon = 0.01"), target="onnx", check="sites"),
    Case(group_norm_node, "channels last", model("activation = 1", "b, 3, 5, 8"), target="tensorrt", check="sites"),
]

NEGATIVES = [
    Case(group_norm_node, "another activation", model("activation = 2"), target="onnx", why="activation 0 or 1"),
    Case(group_norm_node, "another rank", model("activation = 0", "b, 8, 3"), target="onnx", why="the rank"),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """It is in parts then, and the proof agrees."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """No byte changes, and the report says why."""
    check_spares(case)
