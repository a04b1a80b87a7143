"""The Softplus rule: what fires and what does not."""

import pytest
from surgeon.patterns.activations.softplus import softplus, softplus_beta

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, F64, graph

ONE = "<float one = {1.0}, float zero = {0.0}>"
TWENTY = "<float k = {20.0}>"

# fmt: off
FIRES = [
    Case(softplus, "log(1 + exp(x))", graph("e = Exp(x) a = Add(e, one) y = Log(a)", ONE)),
    Case(softplus, "log1p(exp(x)), as TorchScript writes it", graph("e = Exp(x) a = Add(one, e) y = Log(a)", ONE)),
    Case(softplus, "max(x, 0) + log(1 + exp(-|x|))",
         graph("m = Max(x, zero) b = Abs(x) n = Neg(b) e = Exp(n) a = Add(one, e) l = Log(a) y = Add(m, l)", ONE)),
    Case(softplus, "the same with Clip",
         graph("m = Clip(x, zero) b = Abs(x) n = Neg(b) e = Exp(n) a = Add(one, e) l = Log(a) y = Add(m, l)", ONE)),
    Case(softplus, "dynamo's nn.Softplus: x above 20",
         graph("c = Greater(x, k) s = Softplus(x) y = Where(c, x, s)", TWENTY)),
    Case(softplus, "fp16", graph("e = Exp(x) a = Add(e, one) y = Log(a)", "<float16 one = {15360}>", head=F16)),
    Case(softplus_beta, "dynamo's nn.Softplus(beta=2)",
         graph("b = Mul(x, two) c = Greater(b, k) s = Softplus(b) d = Div(s, two) y = Where(c, x, d)",
               "<float k = {20.0}, float two = {2.0}>")),
    Case(softplus_beta, "with the threshold again", target="decomposed",
         model=graph("b = Mul(x, two) s = Softplus(b) y = Div(s, two)", "<float two = {2.0}>")),
    Case(softplus, "back to primitives, by the stable form", target="decomposed", model=graph("y = Softplus(x)")),
]

NEGATIVES = [
    Case(softplus, "log(2 + exp(x))", why="expected the constant 1",
         model=graph("e = Exp(x) a = Add(e, two) y = Log(a)", "<float two = {2.0}>")),
    Case(softplus, "torch's threshold in fp16, where ORT's Softplus overflows", why="overflows from 89 on",
         model=graph("c = Greater(x, k) s = Softplus(x) y = Where(c, x, s)", "<float16 k = {19712}>", head=F16)),
    Case(softplus, "a threshold of 2", why="expected the constant 20",
         model=graph("c = Greater(x, k) s = Softplus(x) y = Where(c, x, s)", "<float k = {2.0}>")),
    Case(softplus_beta, "divided by another number", why="'beta' must be the same number",
         model=graph("b = Mul(x, two) c = Greater(b, k) s = Softplus(b) d = Div(s, k) y = Where(c, x, d)",
                     "<float k = {20.0}, float two = {2.0}>")),
    Case(softplus, "log Σ exp is no softplus", why="",
         model=graph("e = Exp(x) a = ReduceSum(e) y = Log(a)", head="(float[n, 4] x) => (float[1, 1] y)")),
    Case(softplus, "a double", why="no kernel supports Softplus",
         model=graph("e = Exp(x) a = Add(e, one) y = Log(a)", "<double one = {1.0}>", head=F64)),
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
