"""The HardSwish rule: what fires and what does not."""

import pytest
from surgeon.patterns.activations.hard_swish import hard_swish

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, F64, graph

SIX = "<float three = {3.0}, float zero = {0.0}, float six = {6.0}>"
SIX16 = "<float16 three = {16896}, float16 zero = {0}, float16 six = {17920}>"

# fmt: off
FIRES = [
    Case(hard_swish, "x * HardSigmoid(x), torch's own", graph("h = HardSigmoid<alpha = 0.16666667>(x) y = Mul(x, h)")),
    Case(hard_swish, "the same from dynamo", graph("h = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(x, h)")),
    Case(hard_swish, "x * relu6(x + 3) / 6",
         graph("a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)", SIX)),
    Case(hard_swish, "x * (relu6(x + 3) / 6)",
         graph("a = Add(x, three) c = Clip(a, zero, six) m = Div(c, six) y = Mul(x, m)", SIX)),
    Case(hard_swish, "Min of Max",
         graph("a = Add(x, three) b = Max(a, zero) c = Min(b, six) m = Mul(c, x) y = Div(m, six)", SIX)),
    Case(hard_swish, "x * clip(x / 6 + 0.5, 0, 1)",
         graph("d = Div(x, six) a = Add(d, half) c = Clip(a, zero, one) y = Mul(x, c)",
               SIX[:-1] + ", float half = {0.5}, float one = {1.0}>")),
    Case(hard_swish, "fp16",
         graph("a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)", SIX16, head=F16)),
    Case(hard_swish, "back to primitives", target="decomposed", model=graph("y = HardSwish(x)")),
]

NEGATIVES = [
    Case(hard_swish, "HardSigmoid with the standard's own alpha of 0.2", why="alpha",
         model=graph("h = HardSigmoid(x) y = Mul(x, h)")),
    Case(hard_swish, "another tensor is gated", why="'x' must be the same tensor",
         model=graph("h = HardSigmoid<alpha = 0.16666667>(x) y = Mul(w, h)",
                     head="(float[n, 4] x, float[n, 4] w) => (float[n, 4] y)")),
    Case(hard_swish, "divided by 5", why="expected the constant",
         model=graph("a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, five)",
                     SIX[:-1] + ", float five = {5.0}>")),
    Case(hard_swish, "opset 13 has no HardSwish", why="needs opset 14 and the model has 13",
         model=graph("h = HardSigmoid<alpha = 0.16666667>(x) y = Mul(x, h)", opset=13)),
    Case(hard_swish, "a double keeps its digits", why="too coarse for float64",
         model=graph("a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
                     SIX.replace("float", "double"), head=F64)),
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
