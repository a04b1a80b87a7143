"""Formulas that leave float16 just beyond what made inputs show, and those that look like them and do not."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import surgeon
from tests.half_models import converted, model

ROWS = "(float[N, S, 4] x, float[N, S, 4] z) => (float[N, S, 4] y)"
MEAN = "(float[N, S, 4] x, float[N, 4] z) => (float[N, 4] y)"
WEIGHTS = """<float one = {1}, float lo = {0.00001}, float hi = {0.99999}, float small = {0.001}, float five = {5},
    float near = {0.9999}, int64[1] last = {-1}, int64[1] middle = {1}, float eleven = {11}>"""
KEPT = {
    "log of softmax": (ROWS, "s = Softmax<axis = -1>(x) l = Log(s) y = Mul(l, z)", {"Softmax", "Log"}),
    "log of softmax that is moved": (
        ROWS,
        "s = Softmax<axis = -1>(x) i = Identity(s) c = Clip(i, lo) l = Log(c) y = Mul(l, z)",
        {"Softmax", "Identity", "Clip", "Log"},
    ),
    "log of sigmoid": (ROWS, "s = Sigmoid(x) l = Log(s) y = Mul(l, z)", {"Sigmoid", "Log"}),
    "softplus": (ROWS, "e = Exp(x) a = Add(e, one) l = Log(a) y = Mul(l, z)", {"Exp", "Add", "Log"}),
    "log of a sum of exp": (
        ROWS,
        "e = Exp(x) a = ReduceSum(e, last) l = Log(a) y = Mul(l, z)",
        {"Exp", "ReduceSum", "Log"},
    ),
    "inverse sigmoid": (
        ROWS,
        "s = Tanh(x) c = Clip(s, lo, hi) r = Sub(one, c) q = Div(c, r) l = Log(q) y = Mul(l, z)",
        {"Clip", "Sub", "Div", "Log"},
    ),
    "inverse sigmoid of two bounds": (
        ROWS,
        "s = Tanh(x) c = Clip(s, lo) r = Sub(one, s) d = Clip(r, lo) q = Div(c, d) l = Log(q) y = Mul(l, z)",
        {"Sub", "Clip", "Div", "Log"},
    ),
    "nearly one": (ROWS, "s = Tanh(x) m = Mul(s, near) r = Sub(one, m) y = Mul(r, z)", {"Mul", "Sub"}),
    "written-out mean": (
        MEAN,
        "s = ReduceSum<keepdims = 0>(x, middle) d = Div(s, five) y = Mul(d, z)",
        {"ReduceSum", "Div"},
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_leaves_half_precision_is_kept(case):
    head, body, ops = KEPT[case]
    _, report = converted(model(body, head, weights=WEIGHTS))
    assert report.outcome == "proved"
    assert {item.op for item in report.kept} == ops  # some for a number that a run showed
    assert "formula" in {item.kind for item in report.kept}
    _, report = surgeon.convert(model(body, head, weights=WEIGHTS), "bfloat16", check="none")
    assert "formula" not in {item.kind for item in report.kept}


def test_numbers_far_beyond_those_that_were_tried_stay_numbers():
    """As a GPU has it, with a rounding at each node."""
    x = np.linspace(-40, 40, 48, dtype=np.float32).reshape(2, 6, 4)
    for case in ("log of softmax", "log of sigmoid", "softplus", "log of a sum of exp", "inverse sigmoid"):
        head, body, _ = KEPT[case]
        original = model(body, head, weights=WEIGHTS)
        half, _ = converted(original)
        feeds = {"x": x, "z": np.ones_like(x)}
        (wanted,), (found,) = (ReferenceEvaluator(one).run(None, feeds) for one in (original, half))
        np.testing.assert_allclose(found, wanted, rtol=3e-2, atol=1e-2)  # Tanh loses digits beside 1, as it may


NEGATIVES = {
    "log of a sum of exp below the largest": (
        ROWS,
        "m = ReduceMax(x, last) d = Sub(x, m) e = Exp(d) a = ReduceSum(e, last) l = Log(a) p = Add(l, m) y = Mul(p, z)",
    ),
    "softplus that is stable": (ROWS, "a = Abs(x) n = Neg(a) e = Exp(n) b = Add(e, one) l = Log(b) y = Mul(l, z)"),
    "sigmoid by hand": (ROWS, "n = Neg(x) e = Exp(n) a = Add(e, one) y = Div(z, a)"),
    "softmax without a log": (ROWS, "s = Softmax<axis = -1>(x) y = Mul(s, z)"),
    "1 - p": (ROWS, "s = Sigmoid(x) p = Sub(one, s) y = Mul(p, z)"),
    "log of softmax as one": (ROWS, "s = LogSoftmax(x) y = Mul(s, z)"),
    "a part of a sum": (ROWS, "e = Sigmoid(x) s = ReduceSum(e, last) y = Div(e, s)"),
    "a mean of a fixed size": (ROWS, "s = ReduceSum(x, last) d = Div(s, five) y = Mul(d, z)"),
}


@pytest.mark.parametrize("case", NEGATIVES)
def test_what_does_not_is_converted(case):
    head, body = NEGATIVES[case]
    _, report = converted(model(body, head, weights=WEIGHTS))
    assert report.outcome == "proved"
    assert [item for item in report.kept if item.kind == "formula"] == []


def test_a_sum_over_a_size_that_is_reported_is_of_so_many():
    body = "t = Tanh(x) u = Abs(t) m = Mul(u, k) s = ReduceSum<keepdims = 0>(m, middle) n = Mul(s, small) y = Mul(n, z)"
    made = model(body, MEAN, weights=WEIGHTS.replace("<", "<float k = {100}, ", 1))
    (reason,) = [item.reason for item in converted(made)[1].kept if item.op == "ReduceSum"]
    assert reason.startswith("it adds 4,096 numbers")
    reported = surgeon.CheckOptions(dims={"S": 6})
    assert "ReduceSum" not in {item.op for item in converted(made, options=reported)[1].kept}
    head, body, _ = KEPT["written-out mean"]
    assert converted(model(body, head, weights=WEIGHTS), options=reported)[1].kept == []
