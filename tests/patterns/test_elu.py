"""The ELU rule: what fires and what does not."""

import pytest
from surgeon.patterns.activations.elu import elu

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, F64, graph

CONSTANTS = "<float one = {1.0}, float alpha = {0.7}, float zero = {0.0}>"
BEND = "e = Exp(x) s = Sub(e, one) b = Mul(s, alpha)"
HALF = "<float16 one = {15360}, float16 alpha = {14746}, float zero = {0.0}>"

# fmt: off
FIRES = [
    Case(elu, "torch.where(x > 0, x, alpha * (exp(x) - 1))",
         graph(f"{BEND} c = Greater(x, zero) y = Where(c, x, b)", CONSTANTS)),
    Case(elu, "by Less", graph(f"{BEND} c = Less(x, zero) y = Where(c, b, x)", CONSTANTS)),
    Case(elu, "by GreaterOrEqual", graph(f"{BEND} c = GreaterOrEqual(x, zero) y = Where(c, x, b)", CONSTANTS)),
    Case(elu, "by Not of Less, as TorchScript has it at opset 11",
         graph(f"{BEND} l = Less(x, zero) c = Not(l) y = Where(c, x, b)", CONSTANTS, opset=11)),
    Case(elu, "expm1, without an alpha",
         graph("e = Exp(x) s = Sub(e, one) c = Greater(x, zero) y = Where(c, x, s)", CONSTANTS)),
    Case(elu, "TorchScript's clamps",
         graph(f"{BEND} p = Clip(x, zero) n = Clip(b, , zero) y = Add(p, n)", CONSTANTS)),
    Case(elu, "dynamo's clamps", graph(f"{BEND} p = Max(x, zero) n = Min(b, zero) y = Add(p, n)", CONSTANTS)),
    Case(elu, "Relu and Min", graph(f"{BEND} p = Relu(x) n = Min(zero, b) y = Add(n, p)", CONSTANTS)),
    Case(elu, "relu(x) - alpha * relu(1 - exp(x))",
         graph("p = Relu(x) e = Exp(x) s = Sub(one, e) r = Relu(s) m = Mul(r, alpha) y = Sub(p, m)", CONSTANTS)),
    Case(elu, "dynamo in fp16 compares in float",
         graph(f"{BEND} w = Cast<to = 1>(x) c = Greater(w, zero) y = Where(c, x, b)", HALF, head=F16)),
    Case(elu, "back to primitives", target="decomposed", model=graph("y = Elu<alpha = 0.7>(x)")),
    Case(elu, "fp16 back to primitives", target="decomposed", model=graph("y = Elu(x)", head=F16)),
]

NEGATIVES = [
    Case(elu, "above one, not above zero", why="expected the constant 0",
         model=graph(f"{BEND} c = Greater(x, one) y = Where(c, x, b)", CONSTANTS)),
    Case(elu, "the branches are swapped", why="",
         model=graph(f"{BEND} c = Greater(x, zero) y = Where(c, b, x)", CONSTANTS)),
    Case(elu, "exp(x) - 2", why="expected the constant 1 to subtract",
         model=graph("e = Exp(x) s = Sub(e, two) b = Mul(s, alpha) c = Greater(x, zero) y = Where(c, x, b)",
                     CONSTANTS[:-1] + ", float two = {2.0}>")),
    Case(elu, "a negative alpha", why="alpha must be positive",
         model=graph(f"{BEND} p = Relu(x) n = Min(zero, b) y = Add(n, p)", CONSTANTS.replace("0.7", "-0.7"))),
    Case(elu, "a double keeps its digits", why="too coarse for float64",
         model=graph(f"{BEND} c = Greater(x, zero) y = Where(c, x, b)", CONSTANTS.replace("float", "double"),
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
