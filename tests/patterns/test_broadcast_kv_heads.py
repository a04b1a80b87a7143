"""Queries of several heads beside each other by keys that a product spreads: what is found, what is not, and why."""

import pytest
from surgeon.patterns.attention_canonicalization.broadcast_kv_heads import broadcast_kv_heads

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.models import ops

HEAD = "float[b, 2, 3, s, 8] q, float[b, 2, 1, s, 8] k, float[b, 2, 1, s, 8] v"
SCORES = "t = Transpose<perm = [0, 1, 2, 4, 3]>(k) a = MatMul(q, t) c = Mul(a, scale)"
END = "p = Softmax<axis = -1>(c) y = MatMul(p, v)"
MASKED = "n = Add(c, m) p = Softmax<axis = -1>(n) y = MatMul(p, v)"
HALF = "w = Cast<to = 1>(c) p = Softmax<axis = -1>(w) r = Cast<to = 10>(p) y = MatMul(r, v)"


def graph(body, inputs=HEAD, output="float[b, 2, 3, s, 8] y", scale="float scale = {0.25}", opset=17):
    header = f'<ir_version: 10, opset_import: ["" : {opset}]> g'
    return parse(f"{header} ({inputs}) => ({output}) <{scale}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(broadcast_kv_heads, "no mask", graph(f"{SCORES} {END}")),
    Case(broadcast_kv_heads, "for the standard op", graph(f"{SCORES} {END}", opset=23), target="onnx"),
    Case(broadcast_kv_heads, "keys that come turned", graph(
        "a = MatMul(q, k) c = Mul(a, scale) " + END, HEAD.replace("1, s, 8] k", "1, 8, s] k"))),
    Case(broadcast_kv_heads, "a mask for all heads", graph(f"{SCORES} {MASKED}", f"{HEAD}, float[s, s] m")),
    Case(broadcast_kv_heads, "a mask of each batch", graph(f"{SCORES} {MASKED}", f"{HEAD}, float[b, 1, 1, s, s] m")),
    Case(broadcast_kv_heads, "half precision, the softmax in float32", graph(
        f"{SCORES} {HALF}", HEAD.replace("float", "float16"), "float16[b, 2, 3, s, 8] y", "float16 scale = {13312}")),
]
NEGATIVES = [
    Case(broadcast_kv_heads, "a mask of each head", graph(f"{SCORES} {MASKED}", f"{HEAD}, float[b, 2, 3, s, s] m"),
         why="the same for all heads"),
    Case(broadcast_kv_heads, "keys of each head", why="expected 1", model=graph(
        f"{SCORES} {END}", HEAD.replace("[b, 2, 1, s, 8] k", "[b, 2, 3, s, 8] k"))),
    Case(broadcast_kv_heads, "one head in each group", why="one head of queries", model=graph(
        f"{SCORES} {END}", HEAD.replace("[b, 2, 3,", "[b, 2, 1,"), "float[b, 2, 1, s, 8] y")),
    Case(broadcast_kv_heads, "doubles", graph(f"{SCORES} {END}", HEAD.replace("float", "double"),
         "double[b, 2, 3, s, 8] y",
                                       "double scale = {0.25}"), why="the rule supports only float32 or float16"),
    Case(broadcast_kv_heads, "an opset without Attention", graph(f"{SCORES} {END}"), target="onnx", why="opset 23"),
    Case(broadcast_kv_heads, "no softmax", graph(f"{SCORES} y = MatMul(c, v)"), why="Softmax"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_an_attention_of_groups_copies_nothing():
    """Of heads that are parted for the product and joined behind it."""
    inputs = "float[b, 6, s, 8] h, float[b, 2, s, 8] k4, float[b, 2, s, 8] v4"
    parts = "int64[5] parts = {0, 2, 3, -1, 8}, int64[4] whole = {0, 6, -1, 8}, int64[1] two = {2}"
    body = f"q = Reshape(h, parts) k = Unsqueeze(k4, two) v = Unsqueeze(v4, two) {SCORES} {END.replace('y =', 'z =')}"
    model = graph(f"{body} y = Reshape(z, whole)", inputs, "float[b, 6, s, 8] y", f"float scale = {{0.25}}, {parts}")
    made, report = surgeon.rewrite(model, "ort")
    assert report.outcome == "proved"
    assert ops(made.graph).count("GroupQueryAttention") == 1
    assert not {"MatMul", "Tile"} & set(ops(made.graph))
