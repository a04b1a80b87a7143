"""Masks that are added to scores whose batch is split for them."""

import pytest
from surgeon.patterns.attention_canonicalization.reshaped_score_bias import reshaped_score_bias

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.models import ops

INPUTS = "float[b, 6, 4, 4] w, float[1, 3, 1, 4, 4] m"
ONCE = "x = Reshape(w, four) s = Reshape(x, five) a = Add(s, m) y1 = Reshape(a, four) y = Softmax<axis = -1>(y1)"
TWICE = ONCE.replace("a = Add(s, m)", "c = Add(s, m) a = Add(c, m)")


def graph(body, inputs=INPUTS):
    constants = "<int64[5] five = {-1, 3, 2, 4, 4}, int64[4] four = {-1, 2, 4, 4}, int64[4] heads = {-1, 6, 4, 4}>"
    header = '<ir_version: 10, opset_import: ["" : 17]> g'
    return parse(f"{header} ({inputs}) => (float[d, e, 4, 4] y) {constants} {{ {body} }}")


# fmt: off
FIRES = [
    Case(reshaped_score_bias, "a mask of each window", graph(ONCE)),
    Case(reshaped_score_bias, "the mask added twice", graph(TWICE)),
    Case(reshaped_score_bias, "a mask of each window and head",
         graph(ONCE, INPUTS.replace("[1, 3, 1, 4, 4]", "[1, 3, 2, 4, 4]"))),
]
FIRES += [
    Case(reshaped_score_bias, "rows and columns of an image", parse(
        '<ir_version: 10, opset_import: ["" : 17]> g (float[n, 6, 6] x, float[n, 2, 3, 2, 1] m, float[n, 2, 3, 1, 3] o)'
        " => (float[n, 6, 6] y) <int64[5] five = {-1, 2, 3, 2, 3}, int64[3] three = {-1, 6, 6}> "
        "{ s = Reshape(x, five) c = Add(s, m) a = Add(c, o) y1 = Reshape(a, three) y = Softmax<axis = -1>(y1) }")),
    Case(reshaped_score_bias, "masks of each image", graph(ONCE, INPUTS.replace("[1, 3, 1",
         "[b2, 3, 1").replace("[b,", "[b2,"))),
]
NEGATIVES = [
    Case(reshaped_score_bias, "a mask of other axes", graph(ONCE, INPUTS.replace("[1, 3, 1, 4, 4]", "[4, 4]")),
         why="as many axes as the reshaped"),
    Case(reshaped_score_bias, "the batch joined with the heads", why="the sum must have the shape", model=graph(
        ONCE.replace("y1 = Reshape(a, four)", "y1 = Reshape(a, heads)"))),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """Each site is proved."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """Each miss says why."""
    check_spares(case)


def test_an_attention_of_windows_is_found_where_their_number_is_free():
    """The mask has as many batches as the scores, also where they came of any number: timm's Swin tells -1."""
    inputs = "float[b, 2, 4, 8] q, float[b, 2, 8, 4] k, float[b, 2, 4, 8] v, float[1, 3, 1, 4, 4] m"
    constants = "<int64[5] five = {-1, 3, 2, 4, 4}, int64[4] four = {-1, 2, 4, 4}, float h = {0.25}>"
    body = """a = MatMul(q, k) w = Mul(a, h) s = Reshape(w, five) c = Add(s, m) r = Reshape(c, four)
        p = Softmax<axis = -1>(r) y = MatMul(p, v)"""
    header = '<ir_version: 10, opset_import: ["" : 17]> g'
    model = parse(f"{header} ({inputs}) => (float[d, 2, 4, 8] y) {constants} {{ {body} }}")
    made, report = surgeon.rewrite(model, "ort")
    assert report.outcome == "proved"
    assert "MultiHeadAttention" in ops(made.graph)
