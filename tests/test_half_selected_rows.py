"""Rows that a model selects by scores: nearly equal ones may change places without an error."""

import numpy as np
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.precision.measuring.baseline_runs import BaselineRuns
from surgeon.precision.planning.node_dtypes import DtypeChange
from surgeon.precision.segments.selected_rows import choices
from tests.half_models import converted, model, ops

SCORES = "h = MatMul(x, w) r = Relu(h) c = MatMul(r, u) s = ReduceMax<keepdims = 0>(c, last)"
ROWS = "(float[N, 200, 8] x) => (float[N, 50, 8] y)"
WEIGHTS = """<int64[1] last = {-1}, int64[1] fifty = {50}, int64[1] two = {2}, int64[3] wide = {1, 1, 8},
    int64[1] first = {1}, float half = {0.5}>"""
CASES = {
    "GatherElements": (
        f"{SCORES} v, i = TopK(s, fifty) e = Unsqueeze(i, two) f = Tile(e, wide) q = GatherElements<axis = 1>(r, f) "
        "y = MatMul(q, o)",
        ROWS,
    ),
    "GatherND": (
        f"{SCORES} v, i = TopK(s, fifty) e = Unsqueeze(i, two) q = GatherND<batch_dims = 1>(r, e) y = MatMul(q, o)",
        ROWS,
    ),
    "scores too": (
        f"{SCORES} v, i = TopK(s, fifty) e = Unsqueeze(i, two) q = GatherND<batch_dims = 1>(r, e) p = MatMul(q, o) "
        "z = Unsqueeze(v, two) y = Mul(p, z)",
        ROWS,
    ),
    "the smallest": (
        f"{SCORES} v, i = TopK<largest = 0>(s, fifty) e = Unsqueeze(i, two) q = GatherND<batch_dims = 1>(r, e) "
        "y = MatMul(q, o)",
        ROWS,
    ),
    "places too": (
        f"{SCORES} v, i = TopK(s, fifty) e = Unsqueeze(i, two) q = GatherND<batch_dims = 1>(r, e) y = MatMul(q, o)",
        "(float[N, 200, 8] x) => (float[N, 50, 8] y, int64[N, 50] i)",
    ),
    "two after one another": (
        f"{SCORES} v, i = TopK(s, fifty) e = Unsqueeze(i, two) q = GatherND<batch_dims = 1>(r, e) m = MatMul(q, o) "
        "n = ReduceSum<keepdims = 0>(m, last) b, j = TopK(n, fifty) g = Unsqueeze(j, two) "
        "k = GatherND<batch_dims = 1>(m, g) y = Mul(k, half)",
        ROWS,
    ),
}


def rows(case):
    """The model, whose scores lie close together."""
    body, head = CASES[case]
    made = model(body, head, weights=WEIGHTS)
    rng = np.random.default_rng(0)
    for name, shape in {"w": (8, 8), "u": (8, 4), "o": (8, 8)}.items():
        weight = rng.normal(size=shape).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(weight, name))
    return made


@pytest.mark.parametrize("case", CASES)
def test_rows_that_are_nearly_alike_may_change_places(case):
    _, report = converted(rows(case))
    assert (report.outcome, report.kept) == ("proved", [])
    assert any("compared for the original's selection" in text for text in report.told)


def trying(made):
    """The original, run."""
    tried = BaselineRuns(made, made, DtypeChange(1, 10), surgeon.CheckOptions(), io="keep")
    tried.run(())
    return tried


def test_the_scores_are_compared_where_the_choice_is_given():
    """A model whose rows are right, and which chooses them by other scores, is wrong."""
    made = rows("GatherND")
    half, _ = surgeon.convert(made, check="none")
    tried = trying(made)
    assert tried.error(half) > 0.1
    assert tried.error_of_choice(half) < 5e-3
    wrong = type(made).FromString(half.SerializeToString())
    node = next(node for node in wrong.graph.node if node.op_type == "ReduceMax")
    node.op_type = "ReduceMin"
    assert tried.error_of_choice(wrong) > 0.1


def test_rows_that_are_wrong_are_no_matter_of_choice():
    made = rows("GatherElements")
    wrong, _ = surgeon.convert(made, check="none")
    node = next(node for node in wrong.graph.node if node.op_type == "Relu")
    node.op_type = "Abs"
    assert trying(made).error_of_choice(wrong) > 0.1


CHOSEN = {
    "a TopK that is read": ("v, i = TopK(x, k) y = GatherElements<axis = 1>(x, i)", {"i": "x"}),
    "values alone": ("v, i = TopK(x, k) y = Tanh(v)", {}),
    "an ArgMax that is read": ("i = ArgMax<axis = 1>(x) y = GatherElements<axis = 1>(x, i)", {"i": "x"}),
    "one behind arithmetic": ("t = Tanh(x) v, i = TopK(t, k) y = GatherElements<axis = 1>(x, i)", {"i": "t"}),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_what_chooses_rows(case):
    body, wanted = CHOSEN[case]
    assert choices(model(body, "(float[N, 4] x, int64[1] k) => (float[N, M] y)").graph) == wanted


def test_an_argmax_whose_places_are_an_output_is_judged_by_them():
    made = model("y = ArgMax<axis = 1>(x) z = GatherElements<axis = 1>(x, y)",
                 "(float[N, 4] x) => (int64[N, 1] y, float[N, 1] z)")
    assert choices(made.graph) == {}


def test_an_argmax_that_picks_a_row():
    made = model("t = Tanh(h) i = ArgMax<axis = 1, keepdims = 0>(t) p = Gather(w, i) y = Mul(p, p)",
                 "(float[N, 64] h) => (float[N, 4] y)")
    table = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    made.graph.initializer.append(numpy_helper.from_array(table, "w"))
    half, report = converted(made)
    assert report.outcome == "proved"
    assert "ArgMax" in ops(half)
