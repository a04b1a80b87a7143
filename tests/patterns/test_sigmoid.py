"""The Sigmoid rule: what fires and what does not."""

import pytest
from surgeon.patterns.activations.sigmoid import sigmoid

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, graph

ONE = "<float one = {1.0}>"
HALF = "<float one = {1.0}, float half = {0.5}>"

# fmt: off
FIRES = [
    Case(sigmoid, "1 / (1 + exp(-x))", graph("n = Neg(x) e = Exp(n) a = Add(one, e) y = Div(one, a)", ONE)),
    Case(sigmoid, "Reciprocal, as both exporters of torch write it",
         graph("n = Neg(x) e = Exp(n) a = Add(e, one) y = Reciprocal(a)", ONE)),
    Case(sigmoid, "by tanh", graph("h = Mul(x, half) t = Tanh(h) a = Add(t, one) y = Mul(half, a)", HALF)),
    Case(sigmoid, "by tanh, halved before one half is added",
         graph("h = Mul(x, half) t = Tanh(h) m = Mul(t, half) y = Add(m, half)", HALF)),
    Case(sigmoid, "fp16", graph("n = Neg(x) e = Exp(n) a = Add(e, one) y = Reciprocal(a)",
                                "<float16 one = {15360}>", head=F16)),
    Case(sigmoid, "back to primitives", target="decomposed", model=graph("y = Sigmoid(x)")),
]

NEGATIVES = [
    Case(sigmoid, "the sign is missing", why="expected a product",
         model=graph("e = Exp(x) a = Add(one, e) y = Div(one, a)", ONE)),
    Case(sigmoid, "tanh of another number", why="expected the constant 0.5",
         model=graph("h = Mul(x, two) t = Tanh(h) a = Add(t, one) y = Mul(half, a)",
                     "<float one = {1.0}, float half = {0.5}, float two = {2.0}>")),
    Case(sigmoid, "two over it", why="expected the constant 1",
         model=graph("n = Neg(x) e = Exp(n) a = Add(one, e) y = Div(two, a)",
                     "<float one = {1.0}, float two = {2.0}>")),
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
