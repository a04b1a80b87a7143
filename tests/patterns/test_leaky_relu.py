"""The LeakyRelu rule: what fires and what does not."""

import pytest
from surgeon.patterns.activations.leaky_relu import leaky_relu

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, F64, graph

CONSTANTS = "<float alpha = {0.1}, float zero = {0.0}, float two = {2.0}>"
HALF = "<float16 alpha = {11878}, float zero = {0.0}>"

# fmt: off
FIRES = [
    Case(leaky_relu, "torch.where(x > 0, x, alpha * x)",
         graph("m = Mul(x, alpha) c = Greater(x, zero) y = Where(c, x, m)", CONSTANTS)),
    Case(leaky_relu, "by LessOrEqual",
         graph("m = Mul(x, alpha) c = LessOrEqual(x, zero) y = Where(c, m, x)", CONSTANTS)),
    Case(leaky_relu, "by Not of Less, as TorchScript has it at opset 11",
         graph("m = Mul(x, alpha) l = Less(x, zero) c = Not(l) y = Where(c, x, m)", CONSTANTS, opset=11)),
    Case(leaky_relu, "a slope of two", graph("m = Mul(x, two) c = Greater(x, zero) y = Where(c, x, m)", CONSTANTS)),
    Case(leaky_relu, "max(x, alpha * x)", graph("m = Mul(alpha, x) y = Max(m, x)", CONSTANTS)),
    Case(leaky_relu, "relu(x) - alpha * relu(-x)",
         graph("p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(r, alpha) y = Sub(p, m)", CONSTANTS)),
    Case(leaky_relu, "TorchScript's clamps",
         graph("p = Clip(x, zero) n = Clip(x, , zero) m = Mul(n, alpha) y = Add(p, m)", CONSTANTS)),
    Case(leaky_relu, "dynamo's clamps",
         graph("p = Max(x, zero) n = Min(x, zero) m = Mul(n, alpha) y = Add(p, m)", CONSTANTS)),
    Case(leaky_relu, "dynamo in fp16 compares in float",
         graph("m = Mul(x, alpha) w = Cast<to = 1>(x) c = Greater(w, zero) y = Where(c, x, m)", HALF, head=F16)),
    Case(leaky_relu, "back to primitives", target="decomposed", model=graph("y = LeakyRelu<alpha = 0.1>(x)")),
    Case(leaky_relu, "back to primitives at opset 11", target="decomposed",
         model=graph("y = LeakyRelu<alpha = 0.1>(x)", opset=11)),
]

NEGATIVES = [
    Case(leaky_relu, "an infinite slope", why="not finite",
         model=graph("m = Div(x, zero) c = Greater(x, zero) y = Where(c, x, m)", CONSTANTS)),
    Case(leaky_relu, "max(x, 2 x) is 2 x above zero", why="must be between 0 and 1",
         model=graph("m = Mul(x, two) y = Max(x, m)", CONSTANTS)),
    Case(leaky_relu, "min(x, alpha * x)", why="", model=graph("m = Mul(x, alpha) y = Min(x, m)", CONSTANTS)),
    Case(leaky_relu, "another tensor decides", why="'x' must be the same tensor",
         model=graph("m = Mul(x, alpha) c = Greater(w, zero) y = Where(c, x, m)", CONSTANTS,
                     head="(float[n, 4] x, float[n, 4] w) => (float[n, 4] y)")),
    Case(leaky_relu, "Clip for max(x, 0) at opset 10", why="infinity into a finite number",
         model=graph("p = Clip<min = 0.0>(x) n = Min(x, zero) m = Mul(n, alpha) y = Add(p, m)", CONSTANTS, opset=10)),
    Case(leaky_relu, "ReLU6 for ReLU at opset 10", why="",
         model=graph("p = Clip<min = 0.0, max = 6.0>(x) n = Min(x, zero) m = Mul(n, alpha) y = Add(p, m)", CONSTANTS,
                     opset=10)),
    Case(leaky_relu, "above two", why="expected the constant 0",
         model=graph("m = Mul(x, alpha) c = Greater(x, two) y = Where(c, x, m)", CONSTANTS)),
    Case(leaky_relu, "a double keeps its digits", why="too coarse for float64",
         model=graph("m = Mul(x, alpha) y = Max(x, m)", CONSTANTS.replace("float", "double"), head=F64)),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The rule fires, nothing else changes, and ONNX Runtime agrees."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """No byte changes, and the report says why."""
    check_spares(case)
