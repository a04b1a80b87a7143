"""Integers that int32 can hold, because their values stay small."""

import numpy as np
import onnxruntime as ort
import pytest

import surgeon
from tests.half_models import converted, model

WEIGHTS = """<int64 hour = {3600000}, int64 day = {24}, int64 one = {1}, int64 zero = {0}, int64 most = {1000000},
    int64 prime = {2654435761}, int64 four = {4}, float tenth = {0.1}, int64[1] axis = {1}, bool go = {1},
    float[3, 4] table = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>"""
KEPT = {
    "a clock": ("(int64[N] t) => (int64[N] y)", "d = Div(t, hour) y = Mod(d, day)", {"Div", "Mod"}),
    "a product": ("(int64[N] a, int64[N] b) => (int64[N] y)", "y = Mul(a, b)", {"Mul"}),
    "a hash of tokens": (
        "(int64[N] ids) => (float[N, 4] y, float[N, 4] z)",
        "h = Mul(ids, prime) m = Mod(h, four) c = Sub(m, m) y = Gather(table, c) z = Gather(table, ids)",
        {"Mul", "Mod"},
    ),
    "tokens times much": (
        "(int64[N] ids) => (int64[N] y, float[N, 4] z)",
        "a = Mul(ids, most) y = Mul(a, most) z = Gather(table, ids)",
        {"Mul"},
    ),
    "what is moved and compared": (
        "(int64[N, M] t) => (bool[M, N] y)",
        "a = Transpose(t) y = Equal(a, one)",
        {"Transpose", "Equal"},
    ),
    "floats": (
        "(float[N] x) => (int64[N] y)",
        "a = Mul(x, tenth) i = Cast<to = 7>(a) y = Add(i, one)",
        {"Cast", "Add"},
    ),
    "a loop that multiplies": (
        "(int64[N] m, int64 n) => (int64[N] y)",
        """s = Mod(m, four) y = Loop(n, go, s) <body = step (int64 i, bool more, int64[N] before) => (bool again,
        int64[N] after) { again = Identity(more) after = Mul(before, four) }>""",
        {"Loop", "Mod", "Mul"},
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_nothing_bounds_stays(case):
    head, body, ops = KEPT[case]
    _, report = surgeon.convert(model(body, head, weights=WEIGHTS), "int32", check="none")
    assert {item.op for item in report.kept if item.kind in ("range", "weight")} == ops
    (kind,) = {item.reason.rpartition("; ")[2] for item in report.kept}
    assert kind == "the largest int32 is 2,147,483,647"


BOUND = {
    "tokens": (
        "(int64[N] ids) => (float[N, 4] y, bool[N] e)",
        "a = Add(ids, one) b = Sub(a, one) y = Gather(table, b) e = Equal(ids, one)",
    ),
    "sizes": (
        "(float[N, S, 4] x) => (float[M, 4] y)",
        "s = Shape(x) n = Gather(s, zero) m = Gather(s, one) p = Mul(n, m) r = Range(zero, p, one) c = Cast<to = 1>(r) "
        "d = Mul(c, tenth) u = Unsqueeze(d, axis) y = Mul(u, table0)",
    ),
    "positions of a mask": (
        "(int64[N, S] attention_mask) => (float[N, S] y)",
        """c = CumSum(attention_mask, one) d = Sub(c, one) m = Mul(d, attention_mask) f = Cast<to = 1>(m)
        y = Mul(f, tenth)""",
    ),
    "places": (
        "(float[N, S] x) => (float[N] y)",
        "i = ArgMax<axis = 1, keepdims = 0>(x) a = Mul(i, four) f = Cast<to = 1>(a) y = Mul(f, tenth)",
    ),
    "a loop that counts": (
        "(int64[N] ids, int64 n) => (int64[N] y, float[N, 4] z)",
        """z = Gather(table, ids) y = Loop(n, go, ids) <body = step (int64 i, bool more, int64[N] before)
        => (bool again, int64[N] after) { again = Identity(more) after = Add(before, i) }>""",
    ),
    "a branch": (
        "(int64[N] ids, bool c) => (int64[N] y, float[N, 4] z)",
        """z = Gather(table, ids) y = If(c) <then_branch = yes () => (int64[N] e1) { e1 = Add(ids, one) },
        else_branch = no () => (int64[N] e2) { e2 = Sub(ids, one) }>""",
    ),
}


@pytest.mark.parametrize("case", BOUND)
def test_what_stays_small_is_converted(case):
    head, body = BOUND[case]
    weights = WEIGHTS.replace("<", "<float[4] table0 = {1, 2, 3, 4}, ", 1)
    _, report = surgeon.convert(model(body, head, weights=weights), "int32", check="none")
    assert [item.reason for item in report.kept if item.kind == "range"] == []
    assert report.converted


def test_a_function_is_given_what_its_calls_give():
    functions = '<domain: "local", opset_import: ["" : 18]> next (a) => (b) { b = Add (a, a) }'
    heads = {"(int64[N] ids) => (int64[N] y, float[N, 4] z)": [], "(int64[N] t) => (int64[N] y)": ["Add"]}
    for head, wanted in heads.items():
        body = "y = local.next(ids) z = Gather(table, ids)" if not wanted else "y = local.next(t)"
        made = model(body, head, more=', "local" : 1', weights=WEIGHTS, functions=functions)
        _, report = surgeon.convert(made, "int32", check="none")
        assert [item.op for item in report.kept if item.kind == "range" and item.op == "Add"] == wanted


def test_an_hour_is_what_it_was():
    _, body, _ = KEPT["a clock"]
    made = model(f"s = Shape(x) k = Gather(s, zero) {body} z = Add(k, one)",
                 "(int64[N] t, float[S, 4] x) => (int64[N] y, int64 z)", weights=WEIGHTS)
    result, report = converted(made, to="int32")
    assert report.outcome == "proved"
    feeds = {"t": np.array([1_700_000_000_000]), "x": np.zeros((2, 4), np.float32)}
    assert [one.tolist() for one in ort.InferenceSession(result.SerializeToString()).run(None, feeds)] == [[22], 3]


def test_inputs_that_become_int32_fit_it_and_what_is_computed_of_them_need_not():
    head, body, _ = KEPT["a clock"]
    _, report = surgeon.convert(model(body, head, weights=WEIGHTS), "int32", io="convert", check="none")
    assert [item.op for item in report.kept] == []
    head, body, _ = KEPT["a product"]
    _, report = surgeon.convert(model(body, head, weights=WEIGHTS), "int32", io="convert", check="none")
    assert [item.op for item in report.kept] == ["Mul"]
