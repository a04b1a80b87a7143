"""Sums over an unknown number of terms: running sums, and states of loops."""

import numpy as np
import onnxruntime as ort
import pytest

from surgeon import CheckOptions
from tests.half_models import converted, model

LOOP = "(float[N, 4] x, int64 turns) => (float[N, 4] y)"
SCAN = "(float[4] s, float[T, 4] x) => (float[4] y)"
WEIGHTS = "<int64 axis = {1}, bool go = {1}, float zero = {0}, int64 few = {5}, float less = {0.5}>"


def loop(body, more="", turns="turns"):
    """A Loop over a state s of floats, whose body makes e of it."""
    inner = f"(int64 i, bool c, float[N, 4] s) => (bool d, float[N, 4] e) {{ d = Identity(c) {body} }}"
    return f"b = Mul(x, zero) z = Loop<body = turn {inner}>({turns}, go, b) y = Tanh(z)"


TWO = {"Loop", "Add", "Sub", "Identity"}
KEPT = {
    "a running sum": ("(float[N, S] x) => (float[N, S] y)", "y = CumSum(x, axis)", {"CumSum"}),
    "a long one": ("(float[N, 3000] x) => (float[N, 3000] y)", "y = CumSum(x, axis)", {"CumSum"}),
    "a state": (LOOP, loop("e = Add(s, x)"), {"Loop", "Add"}),
    "of two terms": (LOOP, loop("p = Exp(x) q = Sub(s, p) r = Identity(q) e = Add(x, r)"), TWO),
    "where it goes on": (LOOP, loop("q = Add(x, s) e = Where(c, q, s)"), {"Loop", "Add", "Where"}),
    "of a Scan": (
        SCAN,
        "y = Scan<num_scan_inputs = 1, body = b (float[4] a, float[4] d) => (float[4] e) { e = Add(a, d) }>(s, x)",
        {"Scan", "Add"},
    ),
}
NEGATIVES = {
    "a short running sum": ("(float[N, 300] x) => (float[N, 300] y)", "y = CumSum(x, axis)"),
    "a few turns": ("(float[N, 4] x) => (float[N, 4] y)", loop("e = Add(s, x)", turns="few")),
    "a state that fades": (LOOP, loop("h = Mul(s, less) e = Add(h, x)")),
    "one that is handed on": (LOOP, loop("e = Identity(s)")),
    "one that is made anew": (LOOP, loop("h = Add(x, x) e = Tanh(h)")),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_adds_up_any_number_of_terms_is_kept(case):
    head, body, ops = KEPT[case]
    _, report = converted(model(body, head, weights=WEIGHTS))
    assert {item.op for item in report.kept} == ops
    assert "sum" in {item.kind for item in report.kept}
    assert "can add at most 2,048 equal terms" in report.kept[0].reason


@pytest.mark.parametrize("case", NEGATIVES)
def test_what_adds_up_few_or_nothing_is_not(case):
    head, body = NEGATIVES[case]
    _, report = converted(model(body, head, weights=WEIGHTS))
    assert not report.kept


def test_bfloat16_adds_up_fewer():
    head, body = NEGATIVES["a short running sum"]
    _, report = converted(model(body, head, weights=WEIGHTS), to="bfloat16")
    assert [item.reason for item in report.kept] == ["a running sum over 300; bfloat16 can add at most 256 equal terms"]


def test_a_size_that_is_reported_is_no_larger():
    head, body, _ = KEPT["a running sum"]
    _, report = converted(model(body, head, weights=WEIGHTS), options=CheckOptions(dims={"S": 64}))
    assert not report.kept


def test_a_state_is_right_after_many_turns():
    head, body, _ = KEPT["a state"]
    made = model(body.replace("y = Tanh(z)", "y = Identity(z)"), head, weights=WEIGHTS)
    result, report = converted(made)
    assert report.outcome == "proved"
    feeds = {"x": np.full((1, 4), 0.7, np.float32), "turns": np.array(6000)}
    files = (one.SerializeToString() for one in (made, result))
    sessions = (ort.InferenceSession(one, providers=["CPUExecutionProvider"]) for one in files)
    want, got = (session.run(None, feeds)[0] for session in sessions)
    assert np.allclose(want, got, rtol=1e-2)
