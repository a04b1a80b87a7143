"""The rules of Softmax and its logarithm: what fires and what does not."""

import pytest
from surgeon.patterns.activations.softmax import log_softmax, max_subtracted_softmax, softmax
from surgeon.patterns.attention_canonicalization.relaxed_softmax import relaxed_softmax

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.activations import F16, F64, graph

LAST = "<int64[1] last = {-1}>"
EXP = "m = ReduceMax<axes = [-1], keepdims = 1>(x) d = Sub(x, m) e = Exp(d)"
DYNAMO = "m = ReduceMax<keepdims = 1>(x, last) d = Sub(x, m) e = Exp(d)"
SHIFTED, SHIFTED_DYNAMO = (made.removesuffix(" e = Exp(d)") for made in (EXP, DYNAMO))
APART = "m = ReduceMax<axes = [-1], keepdims = 0>(x) u = Unsqueeze(m, last) d = Sub(x, u)"
FACTOR = "<int64[1] last = {-1}, float many = {32}>"
F16_FACTOR = "<int64[1] last = {-1}, float16 many = {20480}>"  # the bits of 32
CUBE = "(float[n, 3, 4] x) => (float[n, 3, 4] y)"

# fmt: off
FIRES = [
    Case(softmax, "TorchScript", graph(f"{EXP} s = ReduceSum<keepdims = 1>(e, last) y = Div(e, s)", LAST)),
    Case(softmax, "dynamo", graph(f"{DYNAMO} s = ReduceSum<keepdims = 1>(e, last) y = Div(e, s)", LAST, opset=18)),
    Case(softmax, "by the reciprocal",
         graph(f"{EXP} s = ReduceSum<keepdims = 1>(e, last) r = Reciprocal(s) y = Mul(e, r)", LAST)),
    Case(softmax, "an inner axis",
         graph("m = ReduceMax<axes = [1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, one) y = Div(e, s)",
               "<int64[1] one = {1}>", head=CUBE)),
    Case(softmax, "opset 11, the last axis", graph(f"{EXP} s = ReduceSum<axes = [-1]>(e) y = Div(e, s)", opset=11)),
    Case(softmax, "opset 10, the last axis from the front",
         graph("m = ReduceMax<axes = [1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum<axes = [1]>(e) y = Div(e, s)",
               opset=10)),
    Case(softmax, "dynamo in fp16 reduces in float",
         graph("w = Cast<to = 1>(x) m = ReduceMax<keepdims = 1>(w, last) n = Cast<to = 10>(m) d = Sub(x, n) e = Exp(d) "
               "f = Cast<to = 1>(e) s = ReduceSum<keepdims = 1>(f, last) h = Cast<to = 10>(s) y = Div(e, h)",
               LAST, head=F16, opset=18)),
    Case(softmax, "back to primitives", target="decomposed", model=graph("y = Softmax<axis = 1>(x)", head=CUBE)),
    Case(softmax, "opset 11 back to primitives", target="decomposed",
         model=graph("y = Softmax<axis = 2>(x)", head=CUBE, opset=11)),
    Case(max_subtracted_softmax, "TorchScript's amax taken off", graph(f"{SHIFTED} y = Softmax<axis = -1>(d)")),
    Case(max_subtracted_softmax, "dynamo's", graph(f"{SHIFTED_DYNAMO} y = Softmax<axis = -1>(d)", LAST, opset=18)),
    Case(max_subtracted_softmax, "the axis from the front", graph(f"{SHIFTED} y = Softmax<axis = 1>(d)")),
    Case(max_subtracted_softmax, "an inner axis", graph(
        "m = ReduceMax<axes = [-2]>(x) d = Sub(x, m) y = Softmax<axis = 1>(d)", head=CUBE)),
    Case(relaxed_softmax, "scores made small, as CogView has it",
         graph(f"{APART} e = Mul(d, many) y = Softmax<axis = -1>(e)", FACTOR)),
    Case(relaxed_softmax, "a maximum that keeps its axis",
         graph(f"{SHIFTED} e = Mul(many, d) y = Softmax<axis = -1>(e)", FACTOR)),
    Case(relaxed_softmax, "no factor, in float16", graph(f"{APART} y = Softmax<axis = -1>(d)", LAST, head=F16)),
    Case(log_softmax, "log(softmax(x))", graph("s = Softmax<axis = -1>(x) y = Log(s)")),
    Case(log_softmax, "log(softmax(x)) over an inner axis", graph("s = Softmax<axis = 1>(x) y = Log(s)", head=CUBE)),
    Case(log_softmax, "TorchScript by hand",
         graph(f"{EXP} s = ReduceSum<keepdims = 1>(e, last) l = Log(s) y = Sub(d, l)", LAST)),
    Case(log_softmax, "dynamo by hand",
         graph(f"{DYNAMO} s = ReduceSum<keepdims = 1>(e, last) l = Log(s) y = Sub(d, l)", LAST, opset=18)),
    Case(log_softmax, "fp16", graph("s = Softmax<axis = -1>(x) y = Log(s)", head=F16)),
    Case(log_softmax, "back to primitives", target="decomposed", model=graph("y = LogSoftmax(x)")),
]

NEGATIVES = [
    Case(softmax, "without the maximum: 0 beside an infinity, where Softmax is NaN", why="the model has no ReduceMax",
         model=graph("e = Exp(x) s = ReduceSum<keepdims = 1>(e, last) y = Div(e, s)", LAST)),
    Case(softmax, "the maximum over another axis", why="axes",
         model=graph("m = ReduceMax<axes = [0], keepdims = 1>(x) d = Sub(x, m) e = Exp(d) "
                     "s = ReduceSum<keepdims = 1>(e, last) y = Div(e, s)", LAST)),
    Case(softmax, "over two axes", why="must be over one axis",
         model=graph("m = ReduceMax<axes = [0, 1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, both) y = Div(e, s)",
                     "<int64[2] both = {0, 1}>")),
    Case(softmax, "over all axes, of which none is named", why="has no axes",
         model=graph("m = ReduceMax(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e) y = Div(e, s)")),
    Case(log_softmax, "over all axes, of which none is named", why="has no axes",
         model=graph("m = ReduceMax(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e) l = Log(s) y = Sub(d, l)")),
    Case(softmax, "an inner axis at opset 11, where Softmax flattens", why="below opset 13",
         model=graph("m = ReduceMax<axes = [1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum<axes = [1]>(e) y = Div(e, s)",
                     head=CUBE, opset=11)),
    Case(softmax, "Softmax that flattens has no such form", why="below opset 13", target="decomposed",
         model=graph("y = Softmax<axis = 1>(x)", head=CUBE, opset=11)),
    Case(softmax, "the exponentials are not normalised by their own sum", why="expected",
         model=graph(f"{EXP} s = ReduceSum<keepdims = 1>(x, last) y = Div(e, s)", LAST)),
    Case(log_softmax, "without the maximum: -inf beside an infinity, where LogSoftmax is NaN", why="",
         model=graph("l = ReduceLogSumExp<axes = [-1], keepdims = 1>(x) y = Sub(x, l)")),
    Case(max_subtracted_softmax, "the maximum over another axis", why="over different axes",
         model=graph("m = ReduceMax<axes = [0], keepdims = 1>(x) d = Sub(x, m) y = Softmax<axis = -1>(d)")),
    Case(relaxed_softmax, "a product that float16 may not hold", why="too large for float16",
         model=graph(f"{APART} e = Mul(d, many) y = Softmax<axis = -1>(e)", F16_FACTOR, head=F16)),
    Case(relaxed_softmax, "a factor that turns the order", why="reverses the order",
         model=graph(f"{APART} e = Mul(d, many) y = Softmax<axis = -1>(e)", FACTOR.replace("{32}", "{-32}"))),
    Case(relaxed_softmax, "the maximum over another axis", why="over the axis of the softmax",
         model=graph("m = ReduceMax<axes = [0]>(x) d = Sub(x, m) e = Mul(d, many) y = Softmax<axis = -1>(e)", FACTOR)),
    Case(max_subtracted_softmax, "the least number taken off", why="the model has no ReduceMax",
         model=graph("m = ReduceMin<axes = [-1], keepdims = 1>(x) d = Sub(x, m) y = Softmax<axis = -1>(d)")),
    Case(log_softmax, "a double", why="of float64", model=graph("s = Softmax<axis = -1>(x) y = Log(s)", head=F64)),
    Case(log_softmax, "log of a softmax that flattens", why="below opset 13",
         model=graph("s = Softmax<axis = 1>(x) y = Log(s)", head=CUBE, opset=11)),
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
