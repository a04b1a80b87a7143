"""Tensors of numbers so small that half precision has few digits of them, or none, and that become large again."""

import numpy as np
import pytest
from onnx import numpy_helper

import surgeon
from surgeon.precision import delta_debugging
from surgeon.precision.delta_debugging import KeepMinimizer
from tests.half_models import converted, model
from tests.test_half_selected_rows import ROWS, SCORES, WEIGHTS, rows

NORM = "<float[8] one = {1, 1, 1, 1, 1, 1, 1, 1}, float small = {0.0001}, float large = {10000}>"
WIDE = "(float[N, 8] x) => (float[N, 8] y)"
FUNCTION = """
<domain: "local", opset_import: ["" : 18]> deep (x) => (y)
    { s = Constant <value_float = 0.0001> () l = Constant <value_float = 10000.0> ()
      a = Mul (x, s) b = Mul (a, s) c = Mul (b, l) y = Mul (c, l) }
"""
SHRUNK = "a = Mul(x, small) b = Mul(a, small)"
CASES = {
    "a factor": f"{SHRUNK} c = Mul(b, large) d = Mul(c, large) y = Tanh(d)",
    "norms": f"{SHRUNK} c = LayerNormalization(b, one) d = LayerNormalization(c, one) "
             "e = LayerNormalization(d, one) y = Tanh(e)",
    "a sum with numbers as small": f"{SHRUNK} c = Mul(b, b) d = Add(b, c) e = Relu(d) f = Mul(e, large) "
                                   "y = Mul(f, large)",
    "a product with a weight": f"{SHRUNK} c = MatMul(b, w) d = Mul(c, large) y = Mul(d, large)",
    "a function": "d = local.deep(x) y = Tanh(d)",
}


def made_of(case):
    """The model."""
    made = model(CASES[case], WIDE, weights=NORM, more=', "local" : 1', functions=FUNCTION)
    weight = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    made.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return made


@pytest.mark.parametrize("case", CASES)
def test_what_half_precision_takes_for_zero_is_kept_where_the_outputs_follow_from_it(case):
    _, report = converted(made_of(case))
    assert report.outcome == "proved"
    assert {item.kind for item in report.kept} == {"range"}
    assert "or produces are below 6.1e-05" in report.kept[0].reason
    assert "Tanh" not in {item.op for item in report.kept}


def test_what_is_small_beside_what_it_is_added_to_is_not_kept():
    _, report = converted(model(f"{SHRUNK} c = Tanh(x) y = Add(b, c)", WIDE, weights=NORM))
    assert (report.outcome, list(report.kept)) == ("proved", [])


def test_bfloat16_has_such_numbers():
    _, report = converted(made_of("norms"), to="bfloat16", max_error=0.1)
    assert list(report.kept) == []


def test_rows_that_are_chosen_are_not_blamed_for_it():
    """The scores are nearly alike, and the rows pass through numbers that half precision takes for zero."""
    body = (f"{SCORES} v, i = TopK(s, fifty) e = Unsqueeze(i, two) q = GatherND<batch_dims = 1>(r, e) "
            "a = Mul(q, small) b = Mul(a, small) d = Mul(b, large) m = Mul(d, large) y = MatMul(m, o)")
    made = model(body, ROWS, weights=WEIGHTS.replace(">", ", float small = {0.0001}, float large = {10000}>"))
    made.graph.initializer.extend(rows("GatherND").graph.initializer[-3:])
    _, report = converted(made)
    assert report.outcome == "proved"
    assert {item.kind for item in report.kept} == {"range"}
    assert {item.op for item in report.kept} == {"Mul"}


@pytest.mark.parametrize("parts", [1, 5, 40])
def test_a_search_in_which_everything_is_needed_ends(parts):
    places = [((), place) for place in range(400)]
    size = len(places) // parts
    kept_once: list[int] = []

    def error(kept):
        kept_once.append(len(kept))
        return float(len(kept) < len(places))

    search = KeepMinimizer([places[at : at + size] for at in range(0, len(places), size)], error, 0.01)
    search.run()
    assert (len(search.error_by_node), search.holds, search.is_cut_short) == (400, True, True)
    assert len(kept_once) == search.trials == delta_debugging.MAX_TRIALS


def test_a_search_that_can_find_nothing_ends_at_once():
    search = KeepMinimizer([[((), 0)], [((), 1)]], lambda kept: 1.0, 0.01)
    search.run()
    assert (search.trials, search.error_by_node, search.holds) == (1, {}, False)


def test_a_search_that_was_ended_is_reported(monkeypatch):
    monkeypatch.setattr(delta_debugging, "MAX_TRIALS", 2)
    _, report = surgeon.convert(made_of("norms"))
    assert "the search for nodes to keep stopped after 2 trials, so fewer nodes may be enough" in report.told
