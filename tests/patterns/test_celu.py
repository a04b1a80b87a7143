"""The CELU rule: what fires and what does not."""

import pytest
from surgeon.patterns.activations.celu import celu

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, F64, graph

CONSTANTS = "<float one = {1.0}, float zero = {0.0}, float alpha = {0.7}, float two = {2.0}>"
BEND = "d = Div(x, alpha) e = Exp(d) s = Sub(e, one) b = Mul(s, alpha)"

# fmt: off
FIRES = [
    Case(celu, "max(0, x) + min(0, ..), TorchScript's clamps",
         graph(f"{BEND} p = Clip(x, zero) n = Clip(b, , zero) y = Add(p, n)", CONSTANTS)),
    Case(celu, "dynamo's clamps", graph(f"{BEND} p = Max(x, zero) n = Min(b, zero) y = Add(p, n)", CONSTANTS)),
    Case(celu, "by Where", graph(f"{BEND} c = Greater(x, zero) y = Where(c, x, b)", CONSTANTS)),
    Case(celu, "alpha * elu(x / alpha)", graph("d = Div(x, alpha) e = Elu(d) y = Mul(e, alpha)", CONSTANTS)),
    Case(celu, "fp16, through float32",
         graph(f"{BEND} p = Relu(x) n = Clip(b, , zero) y = Add(p, n)",
               "<float16 one = {15360}, float16 zero = {0}, float16 alpha = {14746}>", head=F16)),
    Case(celu, "back to primitives", target="decomposed", model=graph("y = Celu<alpha = 0.7>(x)")),
]

NEGATIVES = [
    Case(celu, "divided by another number", why="'alpha' must be the same number",
         model=graph("d = Div(x, two) e = Elu(d) y = Mul(e, alpha)", CONSTANTS)),
    Case(celu, "opset 11 has no Celu", why="needs opset 12 and the model has 11",
         model=graph("d = Div(x, alpha) e = Elu(d) y = Mul(e, alpha)", CONSTANTS, opset=11)),
    Case(celu, "Celu takes no double", why="must be tensor(float)",
         model=graph("d = Div(x, alpha) e = Elu(d) y = Mul(e, alpha)", "<double alpha = {0.7}>", head=F64)),
    Case(celu, "a negative alpha", why="alpha must be positive",
         model=graph("d = Div(x, alpha) e = Elu(d) y = Mul(e, alpha)", CONSTANTS.replace("0.7", "-0.7"))),
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
