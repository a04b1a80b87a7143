"""Attention over copies of keys and values: what shares them instead, what does not match and why."""

import onnx
import pytest
from surgeon.patterns.attention.attention import attention
from surgeon.patterns.attention.grouped_query_attention import (
    grouped_causal_attention,
    grouped_onnx_attention,
    grouped_query_attention,
)

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, s, 32] q, float[b, 2, s, 8] k, float[b, 2, s, 8] v, float[b, 1, s, s] m"
CONSTANTS = (
    "<int64[1] two = {2}, int64[1] one = {1}, int64[1] zero = {0}, int64[1] three = {3}, int64[1] eight = {8}, "
    "int64[1] four = {4}, int64[3] rows = {0, 0, 32}>"
)
SIZES = "z = Shape(k) n = Slice(z, zero, one) l = Slice(z, two, three)"
COPIES = "times = Concat<axis = 0>(n, two, two, l, eight) heads = Concat<axis = 0>(n, four, l, eight)"
KEYS = "ka = Unsqueeze(k, two) kb = Expand(ka, times) kc = Reshape(kb, heads)"
VALUES = "va = Unsqueeze(v, two) vb = Expand(va, times) vc = Reshape(vb, heads)"
JOINED = (
    "kd = Transpose<perm = [0, 2, 1, 3]>(kc) ke = Reshape(kd, rows) "
    "vd = Transpose<perm = [0, 2, 1, 3]>(vc) ve = Reshape(vd, rows)"
)
HEADS = "<num_heads = 4, scale = 0.35>"
NODE = f"y = com.microsoft.MultiHeadAttention{HEADS}(q, ke, ve)"
MASKED = f"y = com.microsoft.MultiHeadAttention{HEADS}(q, ke, ve, , , m)"
BEFORE = f"{SIZES} {COPIES} {KEYS} {VALUES} {JOINED}"
STANDARD = f"{SIZES} {COPIES} {KEYS} {VALUES} y = Attention(q, kc, vc, m)"
FOUR = INPUTS.replace("float[b, s, 32] q", "float[b, 4, s, 8] q")


def graph(body, inputs=INPUTS, opset=17, output="float[b, s, 32]", constants=CONSTANTS):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {constants} {{ {body} }}")


CORE = "kt = Transpose<perm = [0, 1, 3, 2]>(kc) a = MatMul(q, kt) x = Add(a, m) p = Softmax<axis = -1>(x) "
CORE += "y = MatMul(p, vc)"
INTERLEAVED = "ka = Unsqueeze(k, one) kb = Expand(ka, times) kc = Reshape(kb, heads)"

# fmt: off
FIRES = [
    Case(grouped_query_attention, "copies of keys and values", graph(f"{BEFORE} {NODE}")),
    Case(grouped_query_attention, "tiled, as TorchScript has repeat_interleave",
         graph(f"{SIZES} {COPIES.replace('(n, two, two, l, eight)', '(one, one, two, one, one)', 1)} "
               f"{KEYS.replace('Expand', 'Tile')} {VALUES.replace('Expand', 'Tile')} {JOINED} {NODE}")),
    Case(grouped_query_attention, "with a mask", graph(f"{BEFORE} {MASKED}")),
    Case(grouped_causal_attention, "copies as heads, and the future hidden", graph(
        f"{SIZES} {COPIES} {KEYS} {VALUES} y = com.microsoft.MultiHeadAttention<unidirectional = 1, num_heads = 4, "
        "scale = 0.35>(q, kc, vc)")),
    Case(grouped_causal_attention, "with the future hidden",
         graph(f"{BEFORE} {NODE.replace('num_heads', 'unidirectional = 1, num_heads')}")),
    Case(grouped_onnx_attention, "Attention with fewer heads of keys", target="onnx",
         model=graph(STANDARD, FOUR, 23, "float[b, 4, s, 8]")),
    Case([attention, grouped_query_attention], "from the core of an attention", sites=1,
         model=graph(f"{SIZES} {COPIES} {KEYS} {VALUES} {CORE}", FOUR, output="float[b, 4, s, 8]")),
]
NEGATIVES = [
    Case(grouped_query_attention, "the future hidden by the op", why="not support unidirectional",
         model=graph(f"{BEFORE} {NODE.replace('num_heads', 'unidirectional = 1, num_heads')}")),
    Case(grouped_causal_attention, "nothing hidden", why="unidirectional", model=graph(f"{BEFORE} {NODE}")),
    Case(grouped_query_attention, "heads in another order", why="expected the constant 2",
         model=graph(BEFORE.replace(KEYS, INTERLEAVED) + f" {NODE}")),
    Case(grouped_query_attention, "a cache inside the op", why="expected",
         model=graph(f"{BEFORE} y, pk, pv = com.microsoft.MultiHeadAttention{HEADS}(q, ke, ve, , , , c, d)",
                     f"{INPUTS}, float[b, 4, r, 8] c, float[b, 4, r, 8] d")),
    Case(grouped_query_attention, "keys of more rows than queries", why="as many keys as queries",
         model=graph(f"{BEFORE} {NODE}", INPUTS.replace("2, s, 8]", "2, t, 8]"))),
    Case(grouped_onnx_attention, "more copies than heads of queries", why="the number of copied heads", target="onnx",
         model=graph(STANDARD.replace(", m)", ")"), FOUR.replace("b, 4, s, 8] q", "b, 2, s, 8] q"), 23,
                     "float[b, 2, s, 8]")),
    Case(grouped_query_attention, "more copies than heads of the node", why="the number of copied heads",
         model=graph(f"{BEFORE} {NODE.replace('num_heads = 4', 'num_heads = 2')}")),
    Case(grouped_query_attention, "keys copied twice, values four times", why="the heads of v_x is 1",
         model=graph(f"{BEFORE} {NODE}".replace("vb = Expand(va, times)", "vb = Expand(va, fours)").replace(
             "heads = Concat", "fours = Concat<axis = 0>(n, one, four, l, eight) heads = Concat"),
             INPUTS.replace("float[b, 2, s, 8] v", "float[b, 1, s, 8] v"))),
    Case(grouped_onnx_attention, "an axis of one head copied to several, and more rows", why="the rows of k_spread is",
         model=graph(STANDARD.replace("two, l, eight", "two, r, eight").replace("n, four, l", "n, four, r"),
                     FOUR.replace("2, s, 8] k", "2, 1, 8] k").replace("2, s, 8] v", "2, 1, 8] v") + ", int64[1] r", 23,
                     "float[b, 4, s, 8]")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_no_copy_is_left():
    made, _ = surgeon.rewrite(graph(f"{BEFORE} {MASKED}"), [grouped_query_attention])
    (node,) = (node for node in made.graph.node if node.op_type == "GroupQueryAttention")
    found = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    assert (found["num_heads"], found["kv_num_heads"], found["causal"]) == (4, 2, 0)
    assert "heads" not in {name for node in made.graph.node for name in node.input}
