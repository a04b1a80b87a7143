"""Rotary embeddings that are products of complex numbers: what becomes one RotaryEmbedding, what is not, and why."""

import pytest
from surgeon.patterns.rotary.rotary_embedding import rotary_embedding

from surgeon.testing import Case, check_fires, check_spares, parse

HEADS = "float[b, s, 4, 8]"
INPUTS = f"{HEADS} x, float[s, 4] f"
CONSTANTS = (
    "<int64[1] nil = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] new = {-1}, int64[1] last = {3}, "
    "int64[5] pairs = {0, 0, 0, 4, 2}, int64[5] halves = {0, 0, 0, 2, 4}, int64[4] whole = {0, 0, 0, 8}, "
    "int64[5] table = {1, -1, 1, 4, 2}, int64[4] heads = {0, 0, 4, 8}, int64[5] at_once = {0, 0, 4, 4, 2}>"
)
POLAR = "c1 = Cos(f) s1 = Sin(f) c2 = Unsqueeze(c1, new) s2 = Unsqueeze(s1, new) p = Concat<axis = -1>(c2, s2)"
TABLES = f"{POLAR} t = Reshape(p, table) c = Slice(t, nil, one, new) e = Slice(t, one, two, new)"
CUT = "k = Reshape(x, pairs) i = Slice(k, nil, one, new) j = Slice(k, one, two, new)"
PRODUCT = "m = Mul(i, c) n = Mul(j, e) r = Sub(m, n) o = Mul(i, e) q = Mul(j, c) a = Add(o, q)"
JOINED = "z = Concat<axis = -1>(r, a) y = Reshape(z, whole)"
WHOLE = f"{TABLES} {CUT} {PRODUCT} {JOINED}"
AT_ONCE = WHOLE.replace("Reshape(x, pairs)", "Reshape(x, at_once)").replace("whole", "heads")
BY_SPLIT = "i, j = Split<axis = -1, num_outputs = 2>(k)"


def graph(body, inputs=INPUTS, opset=18, output=HEADS, constants=CONSTANTS):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {constants} {{ {body} }}")


# fmt: off
FIRES = [
    Case(rotary_embedding, "as torch writes view_as_complex", graph(WHOLE)),
    Case(rotary_embedding, "the standard op", graph(WHOLE, opset=23), target="onnx"),
    Case(rotary_embedding, "heads that are split into pairs at once",
         graph(AT_ONCE, INPUTS.replace(HEADS, "float[b, s, 32]"))),
    Case(rotary_embedding, "parts that are split", graph(WHOLE.replace(CUT.split("x, pairs) ")[1], BY_SPLIT))),
    Case(rotary_embedding, "operands swapped",
         graph(WHOLE.replace("Add(o, q)", "Add(q, o)").replace("(i, c)", "(c, i)"))),
    Case(rotary_embedding, "tables that are given, for heads before the rows", graph(
        f"{CUT} {PRODUCT} {JOINED}", "float[b, 4, s, 8] x, float[s, 4, 1] c, float[s, 4, 1] e",
        output="float[b, 4, s, 8]")),
    Case(rotary_embedding, "tables of each batch", graph(
        f"{CUT} {PRODUCT} {JOINED}", f"{HEADS} x, float[b, s, 1, 4, 1] c, float[b, s, 1, 4, 1] e")),
]
NEGATIVES = [
    Case(rotary_embedding, "one number for all of a head", why="half as many columns", model=graph(
        f"{CUT} {PRODUCT} {JOINED}", f"{HEADS} x, float[s, 1, 1, 1] c, float[s, 1, 1, 1] e")),
    Case(rotary_embedding, "tables that have a number for each of a pair", why="does not match the parts", model=graph(
        f"{CUT} {PRODUCT} {JOINED}".replace("whole", "longer"), f"{HEADS} x, float[s, 1, 4, 2] c, float[s, 1, 4, 2] e",
        output="float[b, s, 4, 16]", constants=CONSTANTS.replace(">", ", int64[4] longer = {0, 0, 0, 16}>"))),
    Case(rotary_embedding, "a sum for the difference", why="expected",
         model=graph(WHOLE.replace("Sub(m, n)", "Add(m, n)"))),
    Case(rotary_embedding, "the imaginary part first", why="must begin at part",
         model=graph(WHOLE.replace("i = Slice(k, nil, one", "j = Slice(k, nil, one")
                     .replace("j = Slice(k, one", "i = Slice(k, one"))),
    Case(rotary_embedding, "halves for pairs", why="must be split into pairs", model=graph(
        f"{CUT} {PRODUCT} {JOINED}".replace("x, pairs", "x, halves").replace("one, two, new", "two, far, new")
        .replace("nil, one, new", "nil, two, new"), f"{HEADS} x, float[s, 1, 1, 2] c, float[s, 1, 1, 2] e",
        constants=CONSTANTS.replace(">", ", int64[1] far = {4}>"))),
    Case(rotary_embedding, "joined along another axis", why="expected", model=graph(
        WHOLE.replace("Concat<axis = -1>(r, a)", "Concat<axis = -2>(r, a)"))),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
