"""Rotary embeddings of a part of each head: what the op takes whole, what does not match and why."""

import pytest
from surgeon.patterns.rotary.rotary_3d_input import rotary_3d_input
from surgeon.patterns.rotary.rotary_embedding import rotary_embedding
from surgeon.patterns.rotary.rotary_partial import rotary_partial

from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = (
    "<int64[1] start = {0}, int64[1] middle = {4}, int64[1] half = {2}, int64[1] end = {9223372036854775807}, "
    "int64[1] last = {3}, int64[1] one = {1}, int64[2] parts = {4, 12}, int64[3] rows = {0, 0, 64}, "
    "int64[4] heads = {0, 0, 4, 16}, int64[3] few = {0, 0, 16}, int64[4] some = {0, 0, 4, 4}, int64[1] p = {0}, "
    "int64[1] five = {5}, int64[1] eight = {8}, int64[1] two = {2}, int64[1] three = {3}, int64[1] fifteen = {15}>"
)
TABLES = "float[9, 2] c, float[9, 2] e"
CUT = "a = Slice(x, start, middle, last, one) b = Slice(x, middle, end, last, one)"
TURN = "r = com.microsoft.RotaryEmbedding(a, p, c, e)"
JOIN = "y = Concat<axis = -1>(r, b)"
PLAIN = f"{CUT} {TURN} {JOIN}"
JOINED = TURN.replace("r =", "t =").replace("(a", "<num_heads = 4>(f")
BEHIND = f"{CUT} f = Reshape(a, few) {JOINED} r = Reshape(t, some) {JOIN}"
WRITTEN = (
    f"{CUT} lo = Slice(a, start, half, last, one) hi = Slice(a, half, end, last, one) ne = Neg(hi) "
    "t = Concat<axis = -1>(ne, lo) u = Concat<axis = -1>(c, c) v = Concat<axis = -1>(e, e) m = Mul(a, u) n = Mul(t, v) "
    f"r = Add(m, n) {JOIN}"
)
IN_ROWS = (
    "w = Reshape(z, heads) x = Transpose<perm = [0, 2, 1, 3]>(w) "
    f"{WRITTEN.replace('y = Concat', 'd = Concat')} o = Transpose<perm = [0, 2, 1, 3]>(d) y = Reshape(o, rows)"
)


def graph(body, x="float[b, 4, 9, 16] x", y="float[b, 4, 9, 16] y", opset=17, tables=TABLES):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({x}, {tables}) => ({y}) {CONSTANTS} {{ {body} }}")


STANDARD = PLAIN.replace("com.microsoft.RotaryEmbedding(a, p, c, e)", "RotaryEmbedding(a, c, e)")
# fmt: off
FIRES = [
    Case(rotary_partial, "the first numbers", graph(PLAIN)),
    Case(rotary_partial, "cut without steps", graph(PLAIN.replace(", last, one)", ", last)"))),
    Case(rotary_partial, "cut by Split", graph(f"a, b = Split<axis = 3>(x, parts) {TURN} {JOIN}")),
    Case(rotary_partial, "half of a head, cut by Split",
         graph(f"a, b = Split<axis = -1, num_outputs = 2>(x) {TURN} {JOIN}", opset=18,
               tables=TABLES.replace("2]", "4]"))),
    Case(rotary_partial, "neighbours", graph(PLAIN.replace("Embedding(", "Embedding<interleaved = 1>("))),
    Case(rotary_partial, "half precision",
         graph(PLAIN, "float16[b, 4, 9, 16] x", "float16[b, 4, 9, 16] y", tables=TABLES.replace("float", "float16"))),
    Case(rotary_partial, "heads behind the rows",
         graph(BEHIND, "float[b, 9, 4, 16] x", "float[b, 9, 4, 16] y")),
    Case([rotary_embedding, rotary_partial], "as it is written", graph(WRITTEN)),
    Case([rotary_embedding, rotary_partial, rotary_3d_input], "heads split before and joined behind",
         graph(IN_ROWS, "float[b, 9, 64] z", "float[b, 9, 64] y")),
    Case(rotary_partial, "the standard op", target="onnx",
         model=graph(STANDARD, opset=23, tables="float[b, 9, 2] c, float[b, 9, 2] e")),
    Case([rotary_embedding, rotary_partial], "the standard op, as it is written", target="onnx",
         model=graph(WRITTEN, opset=23)),
]
NEGATIVES = [
    Case(rotary_partial, "the last numbers", why="expected",
         model=graph(f"{CUT} r = com.microsoft.RotaryEmbedding(b, p, c, e) y = Concat<axis = -1>(a, r)",
                     tables=TABLES.replace("2]", "6]"))),
    Case(rotary_partial, "the rest in front", why="expected",
         model=graph(f"{CUT} {TURN} y = Concat<axis = -1>(b, r)")),
    Case(rotary_partial, "numbers that are left out", why="at the end of the one before it",
         model=graph(PLAIN.replace("x, middle, end", "x, five, end"), y="float[b, 4, 9, 15] y")),
    Case(rotary_partial, "numbers that are there twice, and others left out", why="at the end of the one before it",
         model=graph(PLAIN.replace("x, middle, end", "x, three, fifteen"))),
    Case(rotary_partial, "the second numbers", why="expected the constant 0",
         model=graph(PLAIN.replace("x, start, middle", "x, middle, eight"))),
    Case(rotary_partial, "rows cut off", why="expected axis = -1",
         model=graph(f"a = Slice(x, start, middle, two, one) b = Slice(x, middle, end, two, one) {TURN} "
                     "y = Concat<axis = -2>(r, b)", tables="float[9, 8] c, float[9, 8] e")),
    Case(rotary_partial, "a part that others read", why="is also read",
         model=graph(f"{PLAIN} z = Neg(r)", y="float[b, 4, 9, 4] z, float[b, 4, 9, 16] y")),
    Case(rotary_partial, "a part of a part", why="already rotates only a part",
         model=graph(PLAIN.replace("Embedding(", "Embedding<num_heads = 4, rotary_embedding_dim = 2>("),
                     tables=TABLES.replace("2]", "1]"))),
    Case(rotary_partial, "the rest in front, of the standard op", why="expected", target="onnx",
         model=graph(STANDARD.replace("(r, b)", "(b, r)"), opset=23, tables="float[b, 9, 2] c, float[b, 9, 2] e")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
