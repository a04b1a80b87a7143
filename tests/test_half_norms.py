"""Norms by hand in every spelling: they hold for activations far beyond the made ones, and small ones."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from tests.half_models import converted, model

HEAD = "(float[N, 4, 8] x) => (float[N, 4, 8] y)"
WEIGHTS = """<int64[1] last = {-1}, float two = {2}, float eps = {0.00000001}, float far = {3e38}, float half = {0.5},
    float minus = {-0.5}, float eight = {8}, float one = {1}, int64[3] flat = {0, 0, 8}, int64[3] thin = {0, 0, 1},
    float[8, 1] mean_of = {0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125},
    float micro = {1e-12}, float[1, 4, 1] window = {0.25, 0.25, 0.25, 0.25},
    float[8] weights = {0.1, 0.2, 0.1, 0.1, 0.1, 0.2, 0.1, 0.1}>"""
CENTRED = "m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, last)"
SUM = "q = Mul(x, x) v = ReduceSum(q, last)"
NORMS = {
    "epsilon": f"{CENTRED} a = Add(v, eps) r = Sqrt(a) y = Div(d, r)",
    "max": f"{CENTRED} a = Max(v, eps) r = Sqrt(a) y = Div(d, r)",
    "min and max": f"{CENTRED} b = Min(v, far) a = Max(b, eps) r = Sqrt(a) y = Div(d, r)",
    "clip": f"{CENTRED} a = Clip(v, eps) r = Sqrt(a) y = Div(d, r)",
    "factor": f"{CENTRED} b = Mul(v, two) a = Add(b, eps) r = Sqrt(a) y = Div(d, r)",
    "absolute value": f"{CENTRED} b = Abs(v) a = Add(b, eps) r = Sqrt(a) y = Div(d, r)",
    "rectified": f"{CENTRED} b = Relu(v) a = Add(b, eps) r = Sqrt(a) y = Div(d, r)",
    "a sum and a count": f"{SUM} b = Div(v, eight) a = Add(b, eps) r = Sqrt(a) y = Div(x, r)",
    "a power": f"{CENTRED} a = Max(v, eps) r = Pow(a, half) y = Div(d, r)",
    "a negative power": f"{SUM} a = Clip(v, eps) r = Pow(a, minus) y = Mul(x, r)",
    "a root of a reciprocal": f"{SUM} a = Max(v, eps) b = Reciprocal(a) r = Sqrt(b) y = Mul(x, r)",
    "a reciprocal of a root": f"{SUM} a = Max(v, eps) b = Sqrt(a) r = Reciprocal(b) y = Mul(x, r)",
    "a quotient": f"{SUM} a = Add(v, eps) b = Div(q, a) y = Mul(b, x)",
    "a weighted mean": "q = Mul(x, x) w = Mul(q, weights) v = ReduceSum(w, last) a = Clip(v, eps) r = Sqrt(a) "
    "y = Div(x, r)",
    "a mean by a product": "q = Mul(x, x) v = MatMul(q, mean_of) a = Max(v, eps) r = Sqrt(a) y = Div(x, r)",
    "a mean by pooling": "q = Pow(x, two) v = GlobalAveragePool(q) a = Add(v, eps) r = Sqrt(a) y = Div(x, r)",
    "squares of a copy": "c = Identity(x) q = Mul(x, c) v = ReduceMean(q, last) a = Max(v, eps) r = Sqrt(a) "
    "y = Div(x, r)",
    "squares of sizes": "c = Abs(x) q = Mul(c, c) v = ReduceMean(q, last) a = Max(v, eps) r = Sqrt(a) y = Div(x, r)",
    "another shape between": f"{SUM} s = Reshape(v, thin) a = Max(s, eps) r = Sqrt(a) y = Div(x, r)",
    "squares as one": "v = ReduceSumSquare(x, last) a = Max(v, eps) r = Sqrt(a) y = Div(x, r)",
    "a norm as one": "v = ReduceL2(x, last) a = Clip(v, eps) y = Div(x, a)",
    "the mean of squares less the square of the mean": "m = ReduceMean(x, last) p = Mul(m, m) q = Mul(x, x) "
    "u = ReduceMean(q, last) v = Sub(u, p) a = Max(v, eps) r = Sqrt(a) d = Sub(x, m) y = Div(d, r)",
    "a mean by windows": "q = Mul(x, x) v = Conv(q, window) a = Max(v, eps) r = Sqrt(a) y = Div(x, r)",
    "fourth powers": "q = Mul(x, x) p = Mul(q, q) v = ReduceMean(p, last) a = Max(v, eps) r = Sqrt(a) s = Sqrt(r) "
    "y = Div(x, s)",
    "the reciprocal of a bounded root": f"{SUM} a = Max(v, micro) b = Sqrt(a) r = Reciprocal(b) y = Mul(x, r)",
    "columns by rows": "t = Transpose<perm = [0, 2, 1]>(x) q = Mul(t, t) v = ReduceMean(q, last) a = Max(v, eps) "
    "r = Sqrt(a) b = Div(t, r) y = Transpose<perm = [0, 2, 1]>(b)",
}
NEGATIVES = {
    "a mean": "v = ReduceMean(x, last) a = Abs(v) b = Add(a, one) r = Sqrt(b) y = Div(x, r)",
    "squares without a root": "q = Mul(x, x) v = ReduceMean(q, last) y = Add(x, v)",
    "squares far before a root": "q = Mul(x, x) v = ReduceMean(q, last) t = Tanh(v) b = Add(t, two) r = Sqrt(b) "
    "y = Div(x, r)",
    "a product of others": "t = Tanh(x) u = Abs(t) w = Add(u, one) q = Mul(w, u) v = ReduceMean(q, last) "
    "b = Add(v, one) r = Sqrt(b) y = Div(x, r)",
}


@pytest.mark.parametrize("case", NORMS)
def test_a_norm_by_hand_holds_for_large_and_small_activations(case):
    """As a GPU has it, with a rounding at each node."""
    body = NORMS[case].replace("y = ", "z = ") + " y = Mul(z, two)"
    original = model(body, HEAD, weights=WEIGHTS)
    half, report = converted(original)
    assert report.outcome == "proved"
    assert report.converted
    x = np.random.default_rng(0).normal(size=(2, 4, 8)).astype(np.float32)
    for size in (300, 100, 1e-3, 1e-4):
        (wanted,), (found,) = (ReferenceEvaluator(one).run(None, {"x": size * x}) for one in (original, half))
        np.testing.assert_allclose(found, wanted, atol=2e-2 * np.abs(wanted).max())


@pytest.mark.parametrize("case", NEGATIVES)
def test_what_only_looks_like_a_norm_is_converted(case):
    _, report = converted(model(NEGATIVES[case], HEAD, weights=WEIGHTS))
    assert report.outcome == "proved"
    assert [item for item in report.kept if item.kind == "formula"] == []


FUNCTIONS = """<domain: "f", opset_import: ["" : 18]> square (x) => (y) { y = Mul(x, x) }
<domain: "f", opset_import: ["" : 18]> root (x) => (y) {
    e = Constant<value_float = 0.00000001>() a = Max(x, e) y = Sqrt(a)
}"""
CALLED = {
    "squares": "q = f.square(x) v = ReduceMean(q, last) a = Max(v, eps) r = Sqrt(a) z = Div(x, r) y = Tanh(z)",
    "roots": "q = Mul(x, x) v = ReduceMean(q, last) r = f.root(v) z = Div(x, r) y = Tanh(z)",
    "both": "q = f.square(x) v = ReduceMean(q, last) r = f.root(v) z = Div(x, r) y = Tanh(z)",
}


@pytest.mark.parametrize("case", CALLED)
def test_a_norm_is_followed_through_functions(case):
    _, report = converted(model(CALLED[case], HEAD, weights=WEIGHTS, more=', "f" : 1', functions=FUNCTIONS))
    assert report.outcome == "proved"
    assert {"Mul", "ReduceMean", "Max", "Sqrt"} <= {item.op for item in report.kept}


BRANCHES = """If(c) <
    then_branch = t () => (float[N, 4, 8] p) { p = Mul(x, x) },
    else_branch = e () => (float[N, 4, 8] n) { h = Abs(x) n = Mul(h, h) }
>"""
HIDDEN = {
    "a root": f"q = {BRANCHES} v = ReduceMean(q, last) r = Sqrt(v) z = Div(x, r) y = Tanh(z)",
    "a quotient": f"q = {BRANCHES} v = ReduceSum(q, last) b = Div(q, v) z = Mul(b, x) y = Tanh(z)",
    "a power": f"q = {BRANCHES} v = ReduceMean(q, last) r = Pow(v, half) z = Div(x, r) y = Tanh(z)",
}


@pytest.mark.parametrize("case", HIDDEN)
def test_a_segment_is_tried_with_activations_that_no_run_showed(case):
    """The squares are in branches, which no search for norms enters."""
    head = "(bool c, float[N, 4, 8] x) => (float[N, 4, 8] y)"
    original = model(HIDDEN[case], head, weights=WEIGHTS)
    half, report = converted(original)
    assert report.outcome == "proved"
    assert any("for activations up to" in item.reason for item in report.kept)
    x = np.random.default_rng(0).normal(size=(2, 4, 8)).astype(np.float32)
    for size in (300, 1e-4):
        feeds = {"x": size * x, "c": np.array(True)}
        (wanted,), (found,) = (ReferenceEvaluator(one).run(None, feeds) for one in (original, half))
        np.testing.assert_allclose(found, wanted, atol=2e-2)


def test_a_product_of_activations_is_not_tried_beyond_those_that_were_seen():
    """Scores of attention overflow for activations of 300, which no layer norm in front of them lets through."""
    body = "t = Transpose<perm = [0, 2, 1]>(x) s = MatMul(x, t) p = Softmax(s) z = MatMul(p, x) a = Abs(z) " \
        "b = Add(a, one) y = Div(z, b)"
    _, report = converted(model(body, HEAD, weights=WEIGHTS))
    assert (report.outcome, report.kept) == ("proved", [])
