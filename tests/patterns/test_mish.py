"""The Mish rule: what fires and what does not."""

import pytest
from surgeon.patterns.activations.mish import mish

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, graph

# fmt: off
FIRES = [
    Case(mish, "TorchScript: x * tanh(Softplus)", graph("s = Softplus(x) t = Tanh(s) y = Mul(x, t)", opset=18)),
    Case(mish, "dynamo: Softplus up to 20",
         graph("c = Greater(x, k) s = Softplus(x) w = Where(c, x, s) t = Tanh(w) y = Mul(x, t)",
               "<float k = {20.0}>", opset=18)),
    Case(mish, "log(1 + exp(x))",
         graph("e = Exp(x) a = Add(e, one) s = Log(a) t = Tanh(s) y = Mul(t, x)", "<float one = {1.0}>", opset=18)),
    Case(mish, "fp16", graph("s = Softplus(x) t = Tanh(s) y = Mul(x, t)", head=F16, opset=18)),
    Case(mish, "back to primitives", target="decomposed", model=graph("y = Mish(x)", opset=18)),
]

NEGATIVES = [
    Case(mish, "opset 17 has no Mish", why="needs opset 18 and the model has 17",
         model=graph("s = Softplus(x) t = Tanh(s) y = Mul(x, t)")),
    Case(mish, "Softplus of another tensor", why="'x' must be the same tensor",
         model=graph("s = Softplus(w) t = Tanh(s) y = Mul(x, t)", opset=18,
                     head="(float[n, 4] x, float[n, 4] w) => (float[n, 4] y)")),
    Case(mish, "a threshold of 1", why="expected the constant 20",
         model=graph("c = Greater(x, k) s = Softplus(x) w = Where(c, x, s) t = Tanh(w) y = Mul(x, t)",
                     "<float k = {1.0}>", opset=18)),
    Case(mish, "a sigmoid in place of the tanh", why="",
         model=graph("s = Softplus(x) t = Sigmoid(s) y = Mul(x, t)", opset=18)),
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
