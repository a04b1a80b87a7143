"""The HardSigmoid rule: what fires and what does not."""

import pytest
from surgeon.patterns.activations.hard_sigmoid import hard_sigmoid

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, F64, graph

SIX = "<float three = {3.0}, float zero = {0.0}, float six = {6.0}>"
LINE = "<float slope = {0.2}, float half = {0.5}, float zero = {0.0}, float one = {1.0}>"
LINE16 = "<float16 six = {17920}, float16 half = {14336}, float16 zero = {0}, float16 one = {15360}>"

# fmt: off
FIRES = [
    Case(hard_sigmoid, "relu6(x + 3) / 6, as both exporters write it",
         graph("a = Add(x, three) c = Clip(a, zero, six) y = Div(c, six)", SIX)),
    Case(hard_sigmoid, "the same at opset 10, bounds as attributes",
         graph("a = Add(x, three) c = Clip<min = 0.0, max = 6.0>(a) y = Div(c, six)", SIX, opset=10)),
    Case(hard_sigmoid, "Min of Max", graph("a = Add(x, three) b = Max(a, zero) c = Min(b, six) y = Div(c, six)", SIX)),
    Case(hard_sigmoid, "Max of Min", graph("a = Add(three, x) b = Min(six, a) c = Max(b, zero) y = Div(c, six)", SIX)),
    Case(hard_sigmoid, "Min of Relu", graph("a = Add(x, three) b = Relu(a) c = Min(b, six) y = Div(c, six)", SIX)),
    Case(hard_sigmoid, "(x + 1) / 2, cut off",
         graph("a = Add(x, one) m = Mul(a, half) y = Clip(m, zero, one)", LINE)),
    Case(hard_sigmoid, "times a sixth",
         graph("a = Add(x, three) c = Clip(a, zero, six) y = Mul(c, sixth)",
               SIX[:-1] + ", float sixth = {0.16666667}>")),
    Case(hard_sigmoid, "clip(x / 6 + 0.5, 0, 1)",
         graph("d = Div(x, six) a = Add(d, half) y = Clip(a, zero, one)",
               "<float six = {6.0}, float half = {0.5}, float zero = {0.0}, float one = {1.0}>")),
    Case(hard_sigmoid, "clip(0.2 x + 0.5, 0, 1), as Keras has it",
         graph("d = Mul(x, slope) a = Add(d, half) y = Clip(a, zero, one)", LINE)),
    Case(hard_sigmoid, "fp16", graph("d = Div(x, six) a = Add(d, half) y = Clip(a, zero, one)", LINE16, head=F16)),
    Case(hard_sigmoid, "back to primitives", target="decomposed", model=graph("y = HardSigmoid<alpha = 0.2>(x)")),
]

NEGATIVES = [
    Case(hard_sigmoid, "x / 0", why="not finite",
         model=graph("d = Div(x, zero) a = Add(d, half) y = Clip(a, zero, one)", LINE)),
    Case(hard_sigmoid, "cut off at 5", why="expected the constant 6",
         model=graph("a = Add(x, three) c = Clip(a, zero, five) y = Div(c, six)", SIX[:-1] + ", float five = {5.0}>")),
    Case(hard_sigmoid, "x + 2", why="expected the constant 3",
         model=graph("a = Add(x, two) c = Clip(a, zero, six) y = Div(c, six)", SIX[:-1] + ", float two = {2.0}>")),
    Case(hard_sigmoid, "cut off at -1", why="expected the constant 0",
         model=graph("d = Mul(x, slope) a = Add(d, half) y = Clip(a, low, one)", LINE[:-1] + ", float low = {-1.0}>")),
    Case(hard_sigmoid, "ReLU6 alone", why="the model has no Add",
         model=graph("c = Clip(x, zero, six) y = Div(c, six)", SIX)),
    Case(hard_sigmoid, "the slope is no constant", why="expected",
         model=graph("d = Mul(x, k) a = Add(d, half) y = Clip(a, zero, one)", LINE,
                     head="(float[n, 4] x, float[n, 4] k) => (float[n, 4] y)")),
    Case(hard_sigmoid, "a double keeps its digits", why="too coarse for float64",
         model=graph("d = Mul(x, slope) a = Add(d, half) y = Clip(a, zero, one)", LINE.replace("float", "double"),
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
