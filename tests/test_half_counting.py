"""Counts, positions and sizes as floats: kept where something decides by them, however few are tried."""

import numpy as np
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

import surgeon
from tests.half_models import converted, model

LONG = "(float[N, S, 4] x) => (float[N, S, S] y)"
RANGE = "s = Shape(x) n = Gather(s, o) r = Range(z, n, o) f = Cast<to = 1>(r)"
WEIGHTS = """<int64 z = {0}, int64 o = {1}, int64[1] u0 = {0}, int64[1] u1 = {1}, float lo = {-10000.0},
    float zero = {0}, float one = {1}, float k = {2}, float tenth = {0.1}, float limit = {3000}, bool go = {1},
    float[3, 4] table = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>"""
CAUSAL = f"""{RANGE} a = Unsqueeze(f, u0) b = Unsqueeze(f, u1) c = LessOrEqual(a, b) m = Where(c, zero, lo)
    t = Transpose<perm = [0, 2, 1]>(x) q = MatMul(x, t) h = Add(q, m) y = Softmax<axis = -1>(h)"""
LOOP = """y, e = Loop(n, go, x, zero) <body = step (int64 i, bool more, float[N, 4] before, float count)
    => (bool again, float[N, 4] after, float next) {
        next = Add(count, one)  again = Less(next, limit)  after = Mul(before, one) }>"""
COUNTED = {
    "a causal mask": (LONG, CAUSAL, {"Cast", "Unsqueeze", "LessOrEqual"}),
    "indices that are added up": (
        "(int64[N, S] mask, float[N, S, 4] x) => (float[N, S, 4] y)",
        """f = Cast<to = 1>(mask) c = CumSum(f, o) d = Mul(c, zero) i = Cast<to = 7>(d) e = Gather(table, i)
        y = Mul(x, e)""",
        {"Cast", "CumSum", "Mul"},
    ),
    "lengths": (
        "(bool[N, S] mask, float[N, S, 4] x) => (float[N, S, 4] y, int64[N] i)",
        "f = Cast<to = 1>(mask) c = ReduceSum<keepdims = 0>(f, u1) i = Cast<to = 7>(c) y = Tanh(x)",
        {"Cast", "ReduceSum"},
    ),
    "sizes": (
        "(float[1, 1, S, 4] q) => (float[1, 1, T, U] y)",
        """x = Tanh(q) s = Shape(x) f = Cast<to = 1>(s) d = Mul(f, tenth) e = Div(f, d) c = Mul(e, tenth)
        y = Resize<mode = "nearest">(x, , c)""",
        {"Cast", "Mul", "Div"},
    ),
    "a loop that counts": ("(float[N, 4] x, int64 n) => (float[N, 4] y, float e)", LOOP, {"Loop", "Add", "Less"}),
    "tokens": (
        "(int64[N, S] ids, float[N, S] x) => (float[N, S] y)",
        "f = Cast<to = 1>(ids) d = Mul(f, k) c = Equal(d, limit) e = Where(c, tenth, x) y = Mul(e, e)",
        {"Cast", "Mul", "Equal"},
    ),
    "the largest of places": (
        "(float[N, S] x, int64[N, S] ids) => (int64[N] y, float[N, S] e)",
        "f = Cast<to = 1>(ids) d = Mul(f, k) y = ArgMax<axis = 1, keepdims = 0>(d) e = Tanh(x)",
        {"Cast", "Mul", "ArgMax"},
    ),
}


@pytest.mark.parametrize("case", COUNTED)
def test_what_leads_to_a_decision_is_kept(case):
    head, body, ops = COUNTED[case]
    _, report = converted(model(body, head, weights=WEIGHTS))
    counted = {item.op for item in report.kept if "integers only up to 2,048" in item.reason}
    assert (report.outcome, counted) == ("proved", ops)


@pytest.mark.parametrize("op", ["ahead", "further"])
def test_counts_are_followed_into_functions_and_out_of_them(op):
    functions = """
    <domain: "local", opset_import: ["" : 18]> ahead (a, b) => (c) { d = Neg (a) e = Neg (b) c = LessOrEqual (d, e) }
    <domain: "local", opset_import: ["" : 18]> further (a, b) => (c) { d = Neg (a) e = Neg (b) c = Sub (d, e) }
    """
    ends = {"ahead": "c = local.ahead(b, a)", "further": "h = local.further(a, b) c = Greater(h, k)"}
    body = f"{RANGE} a = Unsqueeze(f, u0) b = Unsqueeze(f, u1) {ends[op]} m = Where(c, zero, lo) y = Add(x, m)"
    made = model(body, "(float[N, S, S] x) => (float[N, S, S] y)", more=', "local" : 1', weights=WEIGHTS,
                 functions=functions)
    _, report = converted(made)
    counted = {item.op for item in report.kept if "integers only up to 2,048" in item.reason}
    inner = {"ahead": {"LessOrEqual"}, "further": {"Sub", "Greater"}}
    assert counted == {"Cast", "Unsqueeze", "Neg", f"local::{op}"} | inner[op]


NEGATIVES = {
    "what is looked up": (
        "(int64[N, S] ids) => (float[N, S, 4] y, bool[N, S, 4] d)",
        "e = Gather(table, ids) t = Mul(e, tenth) d = Greater(t, one) y = Tanh(t)",
    ),
    "positions in numbers": (
        "(float[N, S, 4] x) => (float[N, S, 4] y)",
        f"{RANGE} a = Unsqueeze(f, u1) b = Mul(a, lo) y = Add(x, b)",
    ),
    "a mask that data is multiplied by": (
        "(float[N, S] x, int64[N, S] m) => (float[N, S] y, bool[N, S] c)",
        "f = Cast<to = 1>(m) p = Mul(x, f) c = Greater(p, one) y = Tanh(p)",
    ),
    "whole numbers beside a small one": (
        "(float[N, S] x, int64[N, S] m) => (float[N, S] y)",
        "f = Cast<to = 1>(m) c = Equal(f, zero) y = Where(c, x, tenth)",
    ),
    "bytes": (
        "(uint8[N, S] p, float[N, S] x) => (float[N, S] y, bool[N, S] c)",
        "f = Cast<to = 1>(p) d = Mul(f, tenth) c = Greater(d, k) e = Tanh(x) y = Mul(d, e)",
    ),
    "sizes that are known": (
        "(float[2, 4] x) => (float[2, 4] y, int64[2] i)",
        "s = Shape(x) f = Cast<to = 1>(s) d = Mul(f, k) i = Cast<to = 7>(d) y = Tanh(x)",
    ),
}


@pytest.mark.parametrize("case", NEGATIVES)
def test_what_is_no_count_is_converted(case):
    head, body = NEGATIVES[case]
    _, report = surgeon.convert(model(body, head, weights=WEIGHTS), check="none")
    assert [item.reason for item in report.kept if "integers only" in item.reason] == []


def test_a_mask_of_many_rows_hides_what_is_to_come():
    """With a rounding at each node, as a GPU has it: of 2,100 rows none attends to one behind it."""
    half, _ = converted(model(CAUSAL, LONG, weights=WEIGHTS))
    x = np.random.default_rng(0).normal(size=(1, 2100, 4)).astype(np.float32)
    (found,) = ReferenceEvaluator(half).run(None, {"x": x})
    (wanted,) = ort.InferenceSession(half.SerializeToString()).run(None, {"x": x})
    assert not np.triu(found[0], 1).any()
    assert not np.triu(wanted[0], 1).any()


@pytest.mark.parametrize(("to", "most"), [("bfloat16", "256"), ("float16", "2,048")])
def test_how_far_a_dtype_counts_is_reported(to, most):
    head, body, _ = COUNTED["tokens"]
    _, report = surgeon.convert(model(body, head, weights=WEIGHTS), to=to, check="none")
    assert {item.reason.rpartition(" represents ")[2] for item in report.kept} == {f"integers only up to {most}"}


def test_float32_counts_further_than_ids_need_and_less_far_than_clocks_do():
    head, body, _ = COUNTED["tokens"]
    doubles = body.replace("to = 1", "to = 11"), head.replace("float", "double"), WEIGHTS.replace("float", "double")
    _, report = surgeon.convert(
        model(doubles[0], doubles[1], weights=doubles[2]), from_="float64", to="float32", check="none"
    )
    assert {item.reason.rpartition(" up to ")[2] for item in report.kept} == {"16,777,216"}
