"""Rotary embeddings by sines that are negative for one part: what is rewritten, what does not match and why."""

import numpy as np
import pytest
from surgeon.patterns.rotary.rotary_embedding import rotary_embedding

from surgeon.testing import Case, check_fires, check_spares, parse

FOUR = "float[b, 4, s, 8]"
HEADS = f"{FOUR} x, float[b, 1, s, 4] c, float[b, 1, s, 4] e"
SIX = "float[b, 4, 6, 8] x, float[6, 4] c"
CONSTANTS = (
    "<int64[1] nil = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] far = {8}, "
    "int64[1] last = {3}, int64[1] new = {-1}, int64[5] pairs = {0, 0, 0, 4, 2}, int64[4] whole = {0, 0, 0, 8}, "
    "int64[3] columns = {0, 0, 8}>"
)
HALVES = "a = Slice(x, nil, four, last) d = Slice(x, four, far, last)"
SPLIT = "a, d = Split<axis = -1, num_outputs = 2>(x)"
CUT = "k = Reshape(x, pairs) a1, d1 = Split<axis = -1, num_outputs = 2>(k)"
NEIGHBOURS = f"{CUT} a = Squeeze(a1, new) d = Squeeze(d1, new)"
STACKED = "h1 = Unsqueeze(h, new) k1 = Unsqueeze(k2, new) z = Concat<axis = -1>(h1, k1) y = Reshape(z, whole)"
JOINED = "y = Concat<axis = -1>(h, k2)"
BY_NEG = "f = Mul(a, c) g = Mul(d, e) h = Add(f, g) n = Neg(e) i = Mul(d, c) j = Mul(a, n) k2 = Add(j, i)"
BY_SUB = "f = Mul(a, c) g = Mul(d, e) h = Add(f, g) i = Mul(d, c) j = Mul(a, e) k2 = Sub(i, j)"
BY_TWO = BY_NEG.replace("n = Neg(e) ", "")
CONJUGATE = f"{CUT.replace('a1, d1', 'a, d')} {BY_SUB} z = Concat<axis = -1>(h, k2) y = Reshape(z, whole)"
SUM = "m = Mul(x, u) p = Mul(t, v) y = Add(m, p)"
TABLES = "u = Concat<axis = -1>(c, c) n = Neg(e) v = Concat<axis = -1>(n, e)"
ROLLED = f"{HALVES} t = Concat<axis = -1>(d, a) {TABLES} {SUM}"
TAKEN = f"t = Gather<axis = -1>(x, places) {TABLES} {SUM}"
BESIDE = (
    "c1 = Unsqueeze(c, new) c2 = Concat<axis = -1>(c1, c1) u = Reshape(c2, whole) e1 = Unsqueeze(e, new) n = Neg(e) "
    f"n1 = Unsqueeze(n, new) e2 = Concat<axis = -1>(n1, e1) v = Reshape(e2, whole) "
    f"t = Gather<axis = 3>(x, places) {SUM}"
)
IN_FLOAT = "x1 = Cast<to = 1>(x) t1 = Cast<to = 1>(t) m = Mul(x1, u) p = Mul(t1, v) o = Add(m, p) y = Cast<to = 10>(o)"
WIDE = ROLLED.replace(SUM, IN_FLOAT)


def numbers(values):
    return ", ".join(str(float(number)) for number in np.asarray(values).reshape(-1))


ANGLES = np.arange(24).reshape(6, 4) / 7
SINES = np.round(np.sin(ANGLES), 4)
OTHERS = SINES + (np.arange(24).reshape(6, 4) == 7)
COSINES = np.round(np.cos(ANGLES), 4)


def graph(body, inputs=HEADS, opset=18, output=FOUR, more=""):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {CONSTANTS.replace('>', more + '>')} {{ {body} }}")


def by_places(body, places, inputs=HEADS):
    return graph(body, inputs, more=f", int64[8] places = {{{', '.join(map(str, places))}}}")


def of_two(first, second, body=f"{SPLIT} {BY_TWO} {JOINED}"):
    """Two sines that are fixed: of the second part, and of the first."""
    more = f", float[6, 4] e = {{{numbers(first)}}}, float[6, 4] n = {{{numbers(second)}}}"
    return graph(body, SIX, output="float[b, 4, 6, 8]", more=more)


def with_signs(sines, rows=f"{HALVES} t = Concat<axis = -1>(d, a) {SUM}"):
    """Fixed tables of whole heads."""
    cosines = np.concatenate([COSINES, COSINES], -1)
    more = f", float[6, 8] u = {{{numbers(cosines)}}}, float[6, 8] v = {{{numbers(sines)}}}"
    return graph(rows, "float[b, 4, 6, 8] x", output="float[b, 4, 6, 8]", more=more)


SWAPPED, IN_PAIRS, TURNED = [4, 5, 6, 7, 0, 1, 2, 3], [1, 0, 3, 2, 5, 4, 7, 6], [7, 0, 1, 2, 3, 4, 5, 6]
# fmt: off
FIRES = [
    Case(rotary_embedding, "the sine negated, as modded-nanogpt has it", graph(f"{SPLIT} {BY_NEG} {JOINED}")),
    Case(rotary_embedding, "a sine that others negate too", graph(
        f"{SPLIT} {BY_NEG} {JOINED} v = Relu(n)", output="float[b, 1, s, 4] v, float[b, 4, s, 8]")),
    Case(rotary_embedding, "the standard op, the sine negated", target="onnx",
         model=graph(f"{SPLIT} {BY_NEG} {JOINED}", opset=23)),
    Case(rotary_embedding, "the sine of the second part negated", graph(
        f"{SPLIT} {BY_NEG.replace('(d, e)', '(d, n)').replace('(a, n)', '(a, e)').replace('n = Neg(e)', '')} {JOINED}"
        .replace("f = Mul", "n = Neg(e) f = Mul"))),
    Case(rotary_embedding, "two fixed sines, of which one is the negative of the other", of_two(SINES, -SINES)),
    Case(rotary_embedding, "a difference for the second part", graph(f"{HALVES} {BY_SUB} {JOINED}")),
    Case(rotary_embedding, "neighbours, the sine negated", graph(f"{NEIGHBOURS} {BY_NEG} {STACKED}")),
    Case(rotary_embedding, "neighbours, a difference for the second", graph(f"{NEIGHBOURS} {BY_SUB} {STACKED}")),
    Case(rotary_embedding, "conjugates of complex numbers", graph(
        CONJUGATE, f"{FOUR} x, float[s, 4, 1] c, float[s, 4, 1] e")),
    Case(rotary_embedding, "halves that are rolled", graph(ROLLED)),
    Case(rotary_embedding, "halves that are rolled, the standard op", graph(ROLLED, opset=23), target="onnx"),
    Case(rotary_embedding, "halves that are rolled, by sines with the other signs",
         graph(ROLLED.replace("(n, e)", "(e, n)"))),
    Case(rotary_embedding, "halves that are rolled, in another dtype", graph(
        WIDE, HEADS.replace("float[b, 4", "float16[b, 4"), output=FOUR.replace("float", "float16"))),
    Case(rotary_embedding, "halves that are rolled, by fixed tables", with_signs(np.concatenate([-SINES, SINES], -1))),
    Case(rotary_embedding, "halves by their places", by_places(TAKEN, SWAPPED)),
    Case(rotary_embedding, "neighbours by their places, as SpeechBrain has it", by_places(BESIDE, IN_PAIRS)),
]
NEGATIVES = [
    Case(rotary_embedding, "two sines that are given", why="must be the negative of the other",
         model=graph(f"{SPLIT} {BY_TWO} {JOINED}", f"{HEADS}, float[b, 1, s, 4] n")),
    Case(rotary_embedding, "the negative of another sine", why="must be the negative of the other",
         model=graph(f"{SPLIT} {BY_NEG.replace('Neg(e)', 'Neg(r)')} {JOINED}", f"{HEADS}, float[b, 1, s, 4] r")),
    Case(rotary_embedding, "two fixed sines of one sign", why="negative", model=of_two(SINES, SINES)),
    Case(rotary_embedding, "two fixed sines that differ in one number", why="negative", model=of_two(SINES, -OTHERS)),
    Case(rotary_embedding, "one row of sines, and the negatives of each", why="negative", model=of_two(
        SINES, -SINES, f"{SPLIT} r = Slice(e, nil, one, nil) {BY_TWO.replace('(d, e)', '(d, r)')} {JOINED}")),
    Case(rotary_embedding, "two differences", why="expected",
         model=graph(f"{SPLIT} {BY_SUB} {JOINED}".replace("h = Add(f, g)", "h = Sub(f, g)"))),
    Case(rotary_embedding, "sines of one sign for halves that are rolled", why="signs of the sines must differ",
         model=graph(ROLLED.replace("(n, e)", "(e, e)"))),
    Case(rotary_embedding, "the negative of another sine for halves that are rolled", why="must differ between",
         model=graph(ROLLED.replace("Neg(e)", "Neg(r)"), f"{HEADS}, float[b, 1, s, 4] r")),
    Case(rotary_embedding, "fixed sines that differ in one number", why="signs of the sines must differ",
         model=with_signs(np.concatenate([-OTHERS, SINES], -1))),
    Case(rotary_embedding, "fixed sines with the signs of neighbours", why="signs of the sines must differ",
         model=with_signs(np.stack([-SINES, SINES], -1))),
    Case(rotary_embedding, "halves in their order", why="must begin at part",
         model=graph(ROLLED.replace("(d, a)", "(a, d)"))),
    Case(rotary_embedding, "rolled by one", why="must swap the two parts", model=by_places(TAKEN, TURNED)),
    Case(rotary_embedding, "halves by the places of neighbours", why="must swap the two parts",
         model=by_places(TAKEN, IN_PAIRS)),
    Case(rotary_embedding, "places that are given", why="must swap the two parts",
         model=graph(TAKEN, f"{HEADS}, int64[8] places")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
