"""The SiLU and Swish rules: what fires and what does not."""

import pytest
from surgeon.patterns.activations.silu import silu, swish

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, F64, graph

ONE = "<float one = {1.0}>"

# fmt: off
FIRES = [
    Case(silu, "both exporters: x * sigmoid(x)", graph("s = Sigmoid(x) y = Mul(x, s)")),
    Case(silu, "operands swapped", graph("s = Sigmoid(x) y = Mul(s, x)")),
    Case(silu, "x / (1 + exp(-x))", graph("n = Neg(x) e = Exp(n) a = Add(e, one) y = Div(x, a)", ONE)),
    Case(silu, "x * reciprocal(1 + exp(-x))",
         graph("n = Neg(x) e = Exp(n) a = Add(e, one) r = Reciprocal(a) y = Mul(x, r)", ONE)),
    Case(silu, "x * (1 / (1 + exp(-1 * x)))",
         graph("n = Mul(x, minus) e = Exp(n) a = Add(one, e) r = Div(one, a) y = Mul(r, x)",
               "<float one = {1.0}, float minus = {-1.0}>")),
    Case(silu, "fp16", graph("s = Sigmoid(x) y = Mul(x, s)", head=F16)),
    Case(silu, "opset 11", graph("s = Sigmoid(x) y = Mul(x, s)", opset=11)),
    Case(silu, "in SwiGLU, the gate stays a product",
         graph("s = Sigmoid(x) m = Mul(x, s) y = Mul(m, w)", head="(float[n, 4] x, float[n, 4] w) => (float[n, 4] y)")),
    Case(silu, "to ai.onnx::Swish", target="onnx", model=graph("s = Sigmoid(x) y = Mul(x, s)", opset=24)),
    Case(silu, "QuickGelu with alpha 1 to Swish", target="onnx",
         model=graph("y = com.microsoft.QuickGelu<alpha = 1.0>(x)", opset=24)),
    Case(silu, "Swish to QuickGelu", target="contrib", model=graph("y = Swish(x)", opset=24)),
    Case(silu, "Swish back to primitives", target="decomposed", model=graph("y = Swish(x)", opset=24)),
    Case(silu, "QuickGelu back to primitives", target="decomposed",
         model=graph("y = com.microsoft.QuickGelu<alpha = 1.0>(x)")),
    Case(swish, "x * sigmoid(1.5 x)", graph("m = Mul(x, k) s = Sigmoid(m) y = Mul(x, s)", "<float k = {1.5}>")),
    Case(swish, "divided by two in the sigmoid",
         graph("m = Div(x, k) s = Sigmoid(m) y = Mul(x, s)", "<float k = {2.0}>")),
    Case(swish, "to ai.onnx::Swish", target="onnx",
         model=graph("m = Mul(x, k) s = Sigmoid(m) y = Mul(x, s)", "<float k = {1.5}>", opset=24)),
    Case(swish, "back to primitives", target="decomposed", model=graph("y = Swish<alpha = 1.5>(x)", opset=24)),
]

NEGATIVES = [
    Case(swish, "x / 0", why="not finite",
         model=graph("m = Div(x, k) s = Sigmoid(m) y = Mul(x, s)", "<float k = {0.0}>")),
    Case(silu, "another tensor is gated: GLU", why="'x' must be the same tensor",
         model=graph("s = Sigmoid(x) y = Mul(w, s)", head="(float[n, 4] x, float[n, 4] w) => (float[n, 4] y)")),
    Case(silu, "x / (2 + exp(-x))", why="expected the constant 1",
         model=graph("n = Neg(x) e = Exp(n) a = Add(e, two) y = Div(x, a)", "<float two = {2.0}>")),
    Case(silu, "x / (1 + exp(x)) is x * sigmoid(-x)", why="expected a product",
         model=graph("e = Exp(x) a = Add(e, one) y = Div(x, a)", ONE)),
    Case(silu, "the sigmoid is used elsewhere", why="is also read by",
         model=graph("s = Sigmoid(x) y = Mul(x, s) z = Neg(s)",
                     head="(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)")),
    Case(silu, "Swish with another alpha", why="alpha", target="contrib",
         model=graph("y = Swish<alpha = 1.5>(x)", opset=24)),
    Case(silu, "opset 23 has no Swish", why="needs opset 24 and the model has 23", target="onnx",
         model=graph("s = Sigmoid(x) y = Mul(x, s)", opset=23)),
    Case(silu, "ORT runs Swish as it is", why="", model=graph("y = Swish(x)", opset=24)),
    Case(swish, "the factor is no constant", why="expected",
         model=graph("m = Mul(x, k) s = Sigmoid(m) y = Mul(x, s)",
                     head="(float[n, 4] x, float[n, 4] k) => (float[n, 4] y)")),
    Case(swish, "a double keeps its digits", why="too coarse for float64",
         model=graph("m = Mul(x, k) s = Sigmoid(m) y = Mul(x, s)", "<double k = {1.1}>", head=F64)),
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
