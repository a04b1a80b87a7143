"""Casts between what only moves a tensor: what meets then, what does not match and why."""

import pytest
from surgeon.patterns.layout.cast_propagation import hoist_narrowing_cast, sink_widening_cast
from surgeon.patterns.layout.consecutive_ops import consecutive_transposes
from surgeon.patterns.layout.consecutive_reshapes import consecutive_reshapes

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = "<int64[4] heads = {0, 0, 4, 8}, int64[3] joined = {0, 0, 32}, int64[3] turned = {0, 32, -1}>"
FIRST = "Transpose<perm = [0, 2, 1, 3]>"
HALF = "float16[b, s, 32] x"
SPLIT = f"h = Reshape(x, heads) f = {FIRST}(h)"
JOINED = f"o = {FIRST}(w) y = Reshape(o, joined)"


def graph(body, inputs=HALF, output="float[b, s, 32] y"):
    return parse(f'<ir_version: 10, opset_import: ["" : 17]> g ({inputs}) => ({output}) {CONSTANTS} {{ {body} }}')


WIDENED = graph(f"{SPLIT} w = Cast<to = 1>(f) {JOINED}")
NARROWED = graph(f"{SPLIT} w = Cast<to = 10>(f) {JOINED}", "float[b, s, 32] x", "float16[b, s, 32] y")
# fmt: off
FIRES = [
    Case(sink_widening_cast, "transposes", graph(
        f"f = {FIRST}(x) w = Cast<to = 1>(f) y = {FIRST}(w)", "float16[b, s, 4, 8] x", "float[b, s, 4, 8] y")),
    Case(sink_widening_cast, "reshapes", graph("h = Reshape(x, heads) w = Cast<to = 1>(h) y = Reshape(w, joined)")),
    Case(sink_widening_cast, "a transpose before, a reshape behind", graph(
        f"f = {FIRST}(x) w = Cast<to = 1>(f) y = Reshape<allowzero = 0>(w, turned)", "float16[b, 4, s, 8] x",
        "float[b, 32, t] y")),
    Case(sink_widening_cast, "what others read before the Cast", graph(
        f"{SPLIT} w = Cast<to = 1>(f) o = {FIRST}(w) y = Reshape(o, joined) z = Neg(f)", HALF,
        "float[b, s, 32] y, float16[b, 4, s, 8] z")),
    Case(sink_widening_cast, "to float64", graph(
        "h = Reshape(x, heads) w = Cast<to = 11>(h) y = Reshape(w, joined)", "float[b, s, 32] x",
        "double[b, s, 32] y")),
    Case(sink_widening_cast, "what only moves is done in half precision", WIDENED),
    Case(hoist_narrowing_cast, "what only moves is done in half precision", NARROWED),
    Case(hoist_narrowing_cast, "reshapes", graph(
        "h = Reshape(x, heads) w = Cast<to = 10>(h) y = Reshape(w, joined)", "float[b, s, 32] x",
        "float16[b, s, 32] y")),
]
NEGATIVES = [
    Case(sink_widening_cast, "a Cast that narrows", NARROWED, why="does not widen"),
    Case(hoist_narrowing_cast, "a Cast that widens", WIDENED, why="does not narrow"),
    Case(sink_widening_cast, "between halves of two kinds", why="does not widen", model=graph(
        "h = Reshape(x, heads) w = Cast<to = 16>(h) y = Reshape(w, joined)", HALF, "bfloat16[b, s, 32] y")),
    Case(sink_widening_cast, "integers", why="from one float dtype to another", model=graph(
        "h = Reshape(x, heads) w = Cast<to = 1>(h) y = Reshape(w, joined)", "uint8[b, s, 32] x")),
    Case(hoist_narrowing_cast, "to integers", why="from one float dtype to another", model=graph(
        "h = Reshape(x, heads) w = Cast<to = 3>(h) y = Reshape(w, joined)", "float[b, s, 32] x", "int8[b, s, 32] y")),
    Case(sink_widening_cast, "a Cast that others read", why="is also read", model=graph(
        f"{SPLIT} w = Cast<to = 1>(f) {JOINED} z = Neg(w)", HALF, "float[b, s, 32] y, float[b, 4, s, 8] z")),
    Case(hoist_narrowing_cast, "others read what is moved before", why="is also read", model=graph(
        f"{SPLIT} w = Cast<to = 10>(f) {JOINED} z = Neg(f)", "float[b, s, 32] x",
        "float16[b, s, 32] y, float[b, 4, s, 8] z")),
    Case(sink_widening_cast, "nothing that moves before", why="expected", model=graph(
        "h = Neg(x) w = Cast<to = 1>(h) y = Reshape(w, joined)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


@pytest.mark.parametrize("model", [WIDENED, NARROWED], ids=["widened", "narrowed"])
def test_heads_that_are_split_and_joined_again_leave_the_cast_alone(model):
    """What moves before the Cast cancels what moves behind it."""
    made, report = surgeon.rewrite(
        model, [consecutive_transposes, consecutive_reshapes, sink_widening_cast, hoist_narrowing_cast]
    )
    assert {node.op_type for node in made.graph.node} - {"Identity"} == {"Cast"}  # one may give the output its name
    assert report.outcome == "proved"
