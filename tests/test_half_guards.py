"""Small numbers that keep a divisor from zero: what divides stays float32 where float16 would have zero there."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from tests.half_models import converted, model

WEIGHTS = """<int64[1] last = {-1}, float tiny = {0.000000000001}, float eps = {0.00000001}, float less = {1e-20},
    double wide = {1e-12}, float micro = {0.000001}, float two = {2}, float half = {-0.5},
    float one = {1}>"""
KEPT = {
    "a norm that is bounded": ("n = ReduceL1(x, last) c = Clip(n, tiny) y = Div(x, c)", {"Clip", "Div"}),
    "and repeated": (
        "n = ReduceL1(x, last) c = Max(n, tiny) s = Shape(x) e = Expand(c, s) y = Div(x, e)",
        {"Max", "Expand", "Div"},
    ),
    "a sum with a little more": ("a = Abs(x) n = ReduceSum(a, last) c = Add(n, eps) y = Div(x, c)", {"Add", "Div"}),
    "its reciprocal": (
        "a = Abs(x) n = ReduceSum(a, last) c = Add(eps, n) r = Reciprocal(c) y = Mul(x, r)",
        {"Add", "Reciprocal", "Mul"},
    ),
    "a root": (
        "a = Abs(x) n = ReduceSum(a, last) c = Add(n, less) r = Sqrt(c) y = Div(x, r)",
        {"Add", "Sqrt", "Div"},
    ),
    "the reciprocal of its root": (
        "a = Abs(x) n = ReduceSum(a, last) c = Max(n, tiny) r = Sqrt(c) i = Reciprocal(r) y = Mul(x, i)",
        {"Max", "Sqrt", "Reciprocal", "Mul"},
    ),
    "one divided by its root": (
        "a = Abs(x) n = ReduceSum(a, last) c = Add(n, tiny) r = Sqrt(c) i = Div(one, r) y = Mul(x, i)",
        {"Add", "Sqrt", "Div", "Mul"},
    ),
    "a number divided by a small one": (
        "a = Abs(x) n = ReduceSum(a, last) c = Add(n, micro) i = Div(two, c) y = Mul(x, i)",
        {"Add", "Div", "Mul"},
    ),
    "one through it": (
        "a = Abs(x) n = ReduceSum(a, last) c = Add(n, tiny) r = Pow(c, half) y = Mul(x, r)",
        {"Add", "Pow", "Mul"},
    ),
    "two norms": (
        "n = ReduceL1(x, last) c = Clip(n, eps) d = Mul(c, c) y = Div(x, d)",
        {"Clip", "Mul", "Div"},
    ),
    "its square": (
        "n = Mul(x, x) s = ReduceSum(n, last) e = Mul(eps, eps) c = Max(s, e) r = Reciprocal(c) m = Mul(x, r) "
        "y = Tanh(m)",
        {"Mul", "ReduceSum", "Max", "Reciprocal"},
    ),
    "a double": (
        "n = ReduceL1(x, last) e = Cast<to = 1>(wide) c = Max(n, e) y = Div(x, c)",
        {"Cast", "Max", "Div"},
    ),
    "a logarithm": ("a = Abs(x) c = Clip(a, tiny) l = Log(c) y = Mul(l, x)", {"Clip", "Log"}),
}
NEGATIVES = {
    "a root of it is no zero": (
        "a = Abs(x) n = ReduceSum(a, last) c = Add(n, micro) r = Sqrt(c) y = Div(x, r)",
        {"Add"},
    ),
    "nothing divides": ("n = Mul(x, x) c = Add(n, tiny) t = Tanh(c) y = Mul(t, x)", {"Add"}),
    "it is divided": ("a = Abs(x) c = Add(a, tiny) y = Div(c, two)", {"Add"}),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_divides_is_kept_with_what_guards_it(case):
    body, ops = KEPT[case]
    made = model(body, weights=WEIGHTS)
    result, report = converted(made)
    assert report.outcome == "proved"
    assert {item.op for item in report.kept} == ops
    x = np.array([[0, 0, 0, 0], [1, 2, 3, 4]], np.float32)  # as a GPU has it, with a rounding at each node
    want, got = (ReferenceEvaluator(one).run(None, {"x": x})[0] for one in (made, result))
    assert np.allclose(want, got, rtol=2e-3, atol=0)


@pytest.mark.parametrize("case", NEGATIVES)
def test_what_needs_no_guard_is_not(case):
    body, ops = NEGATIVES[case]
    _, report = converted(model(body, weights=WEIGHTS))
    assert {item.op for item in report.kept} == ops


def test_a_power_beyond_all_floats_is_none_that_half_precision_holds():
    body = "a = Abs(x) b = Add(a, tiny) p = Pow(b, steep) m = Mul(p, x) y = Tanh(m)"
    weights = WEIGHTS.replace("float two", "float steep = {-40}, float two")
    _, report = converted(model(body, weights=weights), check="none")
    assert {"Add", "Pow", "Mul"} <= {item.op for item in report.kept}


def test_bfloat16_holds_such_numbers():
    body, _ = KEPT["its reciprocal"]
    _, report = converted(model(body, weights=WEIGHTS), to="bfloat16", max_error=0.05)
    assert not report.kept


def test_an_argmax_rounds_nothing_and_is_of_what_it_reads():
    made = model("s = Softmax(x) y = ArgMax(s)", "(float[N, 4] x) => (int64[M, 4] y)")
    _, report = converted(made, keep=["op:Softmax", "auto"])
    assert (report.converted, report.casts, report.outcome) == (0, 0, "unchanged")
