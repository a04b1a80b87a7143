"""Ops written by the bodies that ONNX defines them by, where the target lacks them."""

import pytest
from surgeon.patterns.lowering.function_ops import function_ops

import surgeon
from surgeon import rule
from surgeon.testing import Case, check_fires, check_spares, parse


def graph(body, head="(float[n, 4] x) => (float[n, 4] y)", opset=20, constants=""):
    return parse(f'<ir_version: 10, opset_import: ["" : {opset}]> g {head} {constants} {{ {body} }}')


AFFINE = graph(
    "y = AffineGrid<align_corners = 1>(t, size)",
    "(float[n, 2, 3] t) => (float[n, 5, 6, 2] y)",
    constants="<int64[4] size = {2, 1, 5, 6}>",
)
LOSS = "(float[n, 5] x, int64[n] t) => (float y)"
FIRES = [
    Case(function_ops, "a crop and a pad", target="tensorrt",
         model=graph("y = CenterCropPad(x, size)", "(float[3, 4] x) => (float[2, 6] y)", 18,
                     "<int64[2] size = {2, 6}>")),
    Case(function_ops, "a loss", graph("y = NegativeLogLikelihoodLoss(x, t)", LOSS, 13), target="tensorrt"),
    Case(function_ops, "a loss with its attribute left at the default", target="tensorrt",
         model=graph("y = SoftmaxCrossEntropyLoss(x, t)", LOSS, 13)),
    Case(function_ops, "a pooling of a pair of losses, one of which nobody reads", target="tensorrt",
         model=graph("y, l = SoftmaxCrossEntropyLoss(x, t)", LOSS, 13)),
]  # fmt: skip
NEGATIVES = [
    Case(function_ops, "what the target has", graph("y = HardSwish(x)"), why="TensorRT runs it as it is",
         target="tensorrt"),
    Case(function_ops, "what ONNX Runtime has", graph("y = HardSwish(x)"), why="ONNX Runtime runs it as it is"),
    Case(function_ops, "random numbers", graph("y = Bernoulli(x)"), target="tensorrt",
         why="ONNX defines no op of the model"),
    Case(function_ops, "ops without a body", graph("y = Relu(x) z = Det(x)", "(float[4, 4] x) => (float[4, 4] y)", 11),
         target="tensorrt", why="ONNX defines no op of the model"),
]  # fmt: skip


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_initializers_that_bodies_alone_read_are_saved():
    """The body of AffineGrid has Ifs, whose branches read constants that nothing around them reads."""
    made, report = surgeon.rewrite(AFFINE, function_ops, target="tensorrt")
    assert report.outcome == "proved"
    assert {node.op_type for node in made.graph.node}.isdisjoint({"AffineGrid"})


def test_a_rule_of_ones_own_may_be_for_what_the_target_lacks():
    """HardSwish is read by TensorRT, Det is not."""

    @rule(patterns=[lambda g, x: g.hard_swish(x)], target="any", lacking=True)
    def hard(g, x):
        return g.mul(x, g.hard_sigmoid(x, alpha=1 / 6))

    _, report = surgeon.rewrite(graph("y = HardSwish(x)"), hard, target="tensorrt", check="none")
    assert not report.sites
    assert "TensorRT runs it as it is" in report.misses[0].reason
