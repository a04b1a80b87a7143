"""Layouts of attention ops: what is no longer moved, what does not match and why."""

import pytest
from surgeon.patterns.attention.attention_layout import attention_4d_kv
from surgeon.patterns.rotary.rotary_3d_input import rotary_3d_input

from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = (
    "<int64[3] rows = {0, 0, 32}, int64[3] wide = {0, 0, 64}, int64[1] places = {0}, "
    "int64[4] heads = {0, 0, 4, 8}, float[9, 4] c = {@}, float[9, 4] e = {@}>"
)
CONSTANTS = CONSTANTS.replace("@", ", ".join(str(number / 40) for number in range(36)))
INPUTS = "float[b, s, 32] q, float[b, 4, t, 8] k, float[b, 4, t, 8] v"
JOINED = (
    "kd = Transpose<perm = [0, 2, 1, 3]>(k) ke = Reshape(kd, rows) "
    "vd = Transpose<perm = [0, 2, 1, 3]>(v) ve = Reshape(vd, rows)"
)
NODE = "y = com.microsoft.MultiHeadAttention<num_heads = 4, scale = 0.35>(q, ke, ve)"
TURNED = (
    "a = Reshape(x, heads) f = Transpose<perm = [0, 2, 1, 3]>(a) r = com.microsoft.RotaryEmbedding(f, places, c, e) "
    "o = Transpose<perm = [0, 2, 1, 3]>(r) y = Reshape(o, rows)"
)
WIDE = TURNED.replace("(f, places", "(w, places").replace(" r =", " w = Cast<to = 1>(f) r =")
WIDE = WIDE.replace("(r) y", "(n) y").replace(" o =", " n = Cast<to = 10>(r) o =")
ROWS = "float[b, 9, 32] x"


def graph(body, inputs=INPUTS, output="float[b, s, 32]"):
    header = '<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {CONSTANTS} {{ {body} }}")


# fmt: off
FIRES = [
    Case(attention_4d_kv, "keys and values that come as heads", graph(f"{JOINED} {NODE}")),
    Case(rotary_3d_input, "heads split before and joined behind", graph(TURNED, ROWS, "float[b, 9, 32]")),
    Case(rotary_3d_input, "heads behind the rows that were never joined", graph(
        TURNED.replace("a = Reshape(x, heads)", "a = Neg(x)"), "float[b, 9, 4, 8] x", "float[b, 9, 32]")),
    Case(rotary_3d_input, "half precision that is turned in float32", graph(
        WIDE, "float16[b, 9, 32] x", "float16[b, 9, 32]")),
    Case(rotary_3d_input, "and goes on in float32", graph(
        WIDE.replace("n = Cast<to = 10>(r) ", "").replace("(n)", "(r)"), "float16[b, 9, 32] x", "float[b, 9, 32]")),
]
NEGATIVES = [
    Case(attention_4d_kv, "heads that are none to the attention", why="the attention has 2 heads",
         model=graph(f"{JOINED} {NODE.replace('num_heads = 4', 'num_heads = 2')}")),
    Case(attention_4d_kv, "values wider than keys", why="different sizes",
         model=graph(f"{JOINED.replace('(vd, rows)', '(vd, wide)')} {NODE}",
                     INPUTS.replace("t, 8] v", "t, 16] v"), "float[b, s, 64]")),
    Case(attention_4d_kv, "values alone come as heads", why="expected",
         model=graph("vd = Transpose<perm = [0, 2, 1, 3]>(v) ve = Reshape(vd, rows) " + NODE,
                     "float[b, s, 32] q, float[b, t, 32] ke, float[b, 4, t, 8] v")),
    Case(rotary_3d_input, "joined in another order", why="expected perm",
         model=graph(TURNED.replace("o = Transpose<perm = [0, 2, 1, 3]>", "o = Transpose<perm = [0, 2, 3, 1]>"), ROWS,
                     "float[b, 9, 32]")),
    Case(rotary_3d_input, "heads in float32 that are read as such too", why="is also read",
         model=graph(f"{WIDE} z = Neg(w)", "float16[b, 9, 32] x", "float[b, 4, 9, 8] z, float16[b, 9, 32]")),
    Case(rotary_3d_input, "heads that are read as such too", why="is also read",
         model=graph(f"{TURNED} z = Neg(r)", ROWS, "float[b, 4, 9, 8] z, float[b, 9, 32]")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
