"""The PRelu rule: what fires and what does not."""

import pytest
from surgeon.patterns.activations.prelu import prelu

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, F64, graph

CONSTANTS = "<float[4] w = {0.1, 0.2, 0.3, 0.4}, float zero = {0.0}>"
IMAGE = "(float[n, 2, h, 3] x) => (float[n, 2, h, 3] y)"

# fmt: off
FIRES = [
    Case(prelu, "torch.where(x > 0, x, w * x)",
         graph("m = Mul(w, x) c = Greater(x, zero) y = Where(c, x, m)", CONSTANTS)),
    Case(prelu, "by Not of Less, as TorchScript has it at opset 11",
         graph("m = Mul(w, x) l = Less(x, zero) c = Not(l) y = Where(c, x, m)", CONSTANTS, opset=11)),
    Case(prelu, "relu(x) - w * relu(-x)",
         graph("p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(w, r) y = Sub(p, m)", CONSTANTS)),
    Case(prelu, "dynamo's clamps", graph("p = Max(x, zero) n = Min(x, zero) m = Mul(w, n) y = Add(p, m)", CONSTANTS)),
    Case(prelu, "one slope for each channel",
         graph("m = Mul(w, x) c = Greater(x, zero) y = Where(c, x, m)",
               "<float[2, 1, 1] w = {0.1, 0.2}, float zero = {0.0}>",
               head=IMAGE)),
    Case(prelu, "fp16", graph("p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(w, r) y = Sub(p, m)",
                              "<float16[4] w = {11878, 12902, 13517, 13926}>", head=F16)),
    Case(prelu, "back to primitives", target="decomposed", model=graph("y = PRelu(x, w)", CONSTANTS)),
]

NEGATIVES = [
    Case(prelu, "the slope broadcasts x", why="the slope must broadcast to the shape of x",
         model=graph("p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(w, r) y = Sub(p, m)", CONSTANTS,
                     head="(float[n, 1] x) => (float[n, 4] y)")),
    Case(prelu, "the slope has more axes", why="more axes than x",
         model=graph("p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(w, r) y = Sub(p, m)",
                     "<float[1, 1, 4] w = {0.1, 0.2, 0.3, 0.4}>",
                     head="(float[n, 4] x) => (float[1, n, 4] y)")),
    Case(prelu, "an infinite slope", why="must be finite",
         model=graph("p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(w, r) y = Sub(p, m)",
                     "<float[4] w = {0.1, inf, 0.3, 0.4}>")),
    Case(prelu, "the slope is computed", why="a constant for 'slope'",
         model=graph("p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(v, r) y = Sub(p, m)",
                     head="(float[n, 4] x, float[4] v) => (float[n, 4] y)")),
    Case(prelu, "a double", why="the rule supports only float16 or bfloat16 or float32",
         model=graph("m = Mul(w, x) c = Greater(x, zero) y = Where(c, x, m)", CONSTANTS.replace("float", "double"),
                     head=F64)),
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
