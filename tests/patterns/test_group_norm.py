"""Group normalisation: what is fused, what is spared and why."""

import numpy as np
import pytest
from onnx import numpy_helper

import surgeon
from patterns.group_norm import group_norm
from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 6, h, w] x) => (float[n, 6, h, w] y)"
CONSTANTS = {
    "one": "float[3] one = {1, 1, 1}",
    "zero": "float[3] zero = {0, 0, 0}",
    "split": "int64[3] split = {0, 3, -1}",
    "scale": "float[6, 1, 1] scale = {1.5, -0.5, 2, 1, 3, 0.25}",
    "bias": "float[6, 1, 1] bias = {1, 2, 3, 4, 5, 6}",
}
NORM = "g = Reshape(x, split) i = InstanceNormalization<epsilon = 1e-5>(g, one, zero) f = Shape(x) r = Reshape(i, f)"
SCALED = f"{NORM} m = Mul(r, scale) y = Add(m, bias)"
BY_HAND = """b0 = Shape<start = 0, end = 1>(x) s0 = Concat<axis = 0>(b0, rest) g = Reshape(x, s0)
    a = ReduceMean(g, last) c = Sub(g, a) q = Mul(c, c) v = ReduceMean(q, last) e = Add(v, eps) s = Sqrt(e)
    d = Div(c, s) f = Shape(x) r = Reshape(d, f) m = Mul(r, scale) y = Add(m, bias)"""
HAND = {"rest": "int64[2] rest = {3, -1}", "last": "int64[1] last = {-1}", "eps": "float eps = {1e-5}"}


def graph(body, head=HEAD, opset=21, **changed):
    text = ", ".join({**CONSTANTS, **changed}.values())
    return parse(
        f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> agraph {head} <{text}> {{ {body} }}'
    )


# fmt: off
FIRES = [
    Case(group_norm, "torch: Reshape, InstanceNormalization, Reshape, Mul, Add", graph(SCALED), target="onnx"),
    Case(group_norm, "no scale and bias", graph(NORM.replace("r = ", "y = ")), target="onnx"),
    Case(group_norm, "a scale of shape [1, 1, 1]", target="onnx",
         model=graph(SCALED, scale="float[1, 1, 1] scale = {1.5}", bias="float bias = {0.5}")),
    Case(group_norm, "a scale of shape [1, 6, 1, 1]", target="onnx",
         model=graph(SCALED, scale="float[1, 6, 1, 1] scale = {1.5, -0.5, 2, 1, 3, 0.25}")),
    Case(group_norm, "fixed sizes in the second Reshape", target="onnx",
         model=graph(SCALED.replace("f = Shape(x)", ""), HEAD.replace("n, 6, h, w", "2, 6, 5, 3"),
                     f="int64[4] f = {2, 6, 5, 3}")),
    Case(group_norm, "two axes behind the channels of a group", target="onnx",
         model=graph(SCALED, HEAD.replace("n, 6, h, w", "n, 6, 5, 3"), split="int64[5] split = {0, 3, 2, 5, 3}")),
    Case(group_norm, "three axes", target="onnx",
         model=graph(SCALED, HEAD.replace("n, 6, h, w", "n, 6, w"), scale="float[6, 1] scale = {1, 2, 3, 4, 5, 6}",
                     bias="float[6, 1] bias = {1, 2, 3, 4, 5, 6}")),
    Case(group_norm, "by hand, the shape computed", graph(BY_HAND, **HAND), target="onnx"),
    Case(group_norm, "a scale that is computed stays behind", target="onnx",
         model=graph(SCALED.replace("Mul(r, scale)", "Mul(r, film)"),
                     HEAD.replace("w] x)", "w] x, float[n, 6, 1, 1] film)"))),
    Case(group_norm, "back to primitives", target="decomposed",
         model=graph("y = GroupNormalization<num_groups = 3, epsilon = 1e-5>(x, scale, bias)",
                     HEAD.replace("h, w", "2, 3"), scale="float[6] scale = {1.5, -0.5, 2, 1, 3, 0.25}",
                     bias="float[6] bias = {1, 2, 3, 4, 5, 6}")),
]
SPARES = [
    Case(group_norm, "opset 20 has one scale for a group", why="needs opset 21", target="onnx",
         model=graph(SCALED, opset=20)),
    Case(group_norm, "the groups have scales of their own", why="scale one and bias zero", target="onnx",
         model=graph(SCALED, one="float[3] one = {1, 2, 1}")),
    Case(group_norm, "the groups have biases of their own", why="scale one and bias zero", target="onnx",
         model=graph(SCALED, zero="float[3] zero = {0, 0.5, 0}")),
    Case(group_norm, "the first axis is not the batch", why="must be the batch", target="onnx",
         model=graph(SCALED, HEAD.replace("n, 6, h, w", "2, 6, h, w"), split="int64[3] split = {1, 3, -1}")),
    Case(group_norm, "another shape behind", why="the shape of the input", target="onnx",
         model=graph(NORM.replace("f = Shape(x)", "").replace("r = ", "y = "),
                     "(float[n, 6, 4, 2] x) => (float[n, 6, 2, 4] y)", f="int64[4] f = {0, 6, 2, 4}")),
    Case(group_norm, "mean over a part of a group", why="all axes behind the channels", target="onnx",
         model=graph(BY_HAND, HEAD.replace("h, w", "5, 3"), **{**HAND, "rest": "int64[3] rest = {3, 2, -1}"})),
    Case(group_norm, "the number of channels is not fixed", why="channels is not fixed", target="onnx",
         model=graph(NORM.replace("r = ", "y = "), HEAD.replace("n, 6", "n, c"))),
    Case(group_norm, "a variance that is not one", why="", target="onnx",
         model=graph(BY_HAND.replace("Mul(c, c)", "Abs(c)"), **HAND)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The rule fires, nothing else changes, and what it means is the same."""
    check_fires(case)


@pytest.mark.parametrize("case", SPARES, ids=str)
def test_spares(case):
    """No byte changes, and the report says why."""
    check_spares(case)


def test_scale_and_bias_are_by_channel():
    """The weights go into the node as vectors."""
    made, _ = surgeon.rewrite(graph(SCALED), group_norm, target="onnx")
    (node,) = made.graph.node
    values = {item.name: numpy_helper.to_array(item) for item in made.graph.initializer}
    assert np.array_equal(values[node.input[1]], np.array([1.5, -0.5, 2, 1, 3, 0.25], np.float32))
    assert np.array_equal(values[node.input[2]], np.array([1, 2, 3, 4, 5, 6], np.float32))
