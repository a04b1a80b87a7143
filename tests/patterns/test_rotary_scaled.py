"""Rotary embeddings that are scaled by place, as xPos is: what becomes one RotaryEmbedding, what is not, and why."""

import numpy as np
import pytest
from surgeon.patterns.rotary.rotary_embedding import rotary_embedding

from surgeon.testing import Case, check_fires, check_spares, parse

FOUR = "float[b, 4, s, 8]"
INPUTS = f"{FOUR} x, float[s, 4] f, float[s, 4] r"
CONSTANTS = (
    "<int64[1] nil = {0}, int64[1] four = {4}, int64[1] far = {8}, int64[1] last = {3}, int64[1] new = {-1}, "
    "int64[5] pairs = {0, 0, 0, 4, 2}, int64[4] whole = {0, 0, 0, 8}, int64[2] flat = {0, 8}>"
)
HALVES = "a = Slice(x, nil, four, last) d = Slice(x, four, far, last) n = Neg(d) t = Concat<axis = -1>(n, a)"
TABLES = "h = Concat<axis = -1>(f, f) c = Cos(h) e = Sin(h) k = Concat<axis = -1>(r, r)"
SCALED = "m = Mul(x, c) o = Mul(m, k) p = Mul(t, e) q = Mul(p, k) y = Add(o, q)"
WHOLE = f"{HALVES} {TABLES} {SCALED}"
PAIRS = (
    "z = Reshape(x, pairs) i1, j1 = Split<axis = -1, num_outputs = 2>(z) j = Squeeze(j1, new) "
    "n = Neg(j) n1 = Unsqueeze(n, new) t1 = Concat<axis = -1>(n1, i1) t = Reshape(t1, whole)"
)
BESIDE = (
    "f1 = Unsqueeze(f, new) f2 = Concat<axis = -1>(f1, f1) h = Reshape(f2, flat) c = Cos(h) e = Sin(h) "
    "r1 = Unsqueeze(r, new) r2 = Concat<axis = -1>(r1, r1) k = Reshape(r2, flat)"
)


def graph(body, inputs=INPUTS, opset=18, output=FOUR, more=""):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {CONSTANTS.replace('>', more + '>')} {{ {body} }}")


def fixed(scale):
    """Tables of numbers."""
    angles = np.tile(np.arange(24).reshape(6, 4) / 7, 2)
    tables = {"c": np.cos(angles), "e": np.sin(angles), "k": scale}
    reported = (f", float[6, 8] {name} = {{{', '.join(f'{number:.4f}' for number in values.reshape(-1))}}}"
            for name, values in tables.items())
    return graph(f"{HALVES} {SCALED}", "float[b, 4, 6, 8] x", output="float[b, 4, 6, 8]", more="".join(reported))


# fmt: off
FIRES = [
    Case(rotary_embedding, "halves", graph(WHOLE)),
    Case(rotary_embedding, "halves, the standard op", graph(WHOLE, opset=23), target="onnx"),
    Case(rotary_embedding, "neighbours", graph(f"{PAIRS} {BESIDE} {SCALED}")),
    Case(rotary_embedding, "tables that are scaled first", graph(
        WHOLE.replace("m = Mul(x, c) o = Mul(m, k)", "m = Mul(c, k) o = Mul(x, m)"))),
    Case(rotary_embedding, "divided by a scale", graph(
        WHOLE.replace("k = Concat<axis = -1>(r, r)", "k1 = Exp(r) k2 = Concat<axis = -1>(k1, k1) k = Reciprocal(k2)"))),
    Case(rotary_embedding, "fixed tables", fixed(np.tile(np.arange(24).reshape(6, 4) / 9 + 1, 2))),
    Case(rotary_embedding, "one row of scales for all", graph(WHOLE, INPUTS.replace("[s, 4] r", "[1, 4] r"))),
    Case(rotary_embedding, "the other way", graph(WHOLE.replace("Neg(d)", "Neg(a)").replace("(n, a)", "(d, n)"))),
    Case(rotary_embedding, "scales of each batch", graph(
        WHOLE, INPUTS.replace("float[s, 4]", "float[b, 1, s, 4]"))),
]
NEGATIVES = [
    Case(rotary_embedding, "the sines alone", why="expected", model=graph(WHOLE.replace("Add(o, q)", "Add(m, q)"))),
    Case(rotary_embedding, "two scales", why="must be the same tensor",
         model=graph(WHOLE.replace("Mul(p, k)", "Mul(p, w)"), f"{INPUTS}, float[s, 8] w")),
    Case(rotary_embedding, "unlike halves of a scale", why="halves of a table differ",
         model=graph(WHOLE.replace("(r, r)", "(r, w)"), f"{INPUTS}, float[s, 4] w")),
    Case(rotary_embedding, "unlike halves of a fixed scale", why="halves of a table differ",
         model=fixed(np.arange(48).reshape(6, 8) / 9 + 1)),
    Case(rotary_embedding, "scales of each head", why="shapes of the tables differ",
         model=graph(WHOLE, INPUTS.replace("[s, 4] r", "[4, s, 4] r"))),
    Case(rotary_embedding, "one scale for a whole head", why="half as many columns",
         model=graph(WHOLE.replace("Concat<axis = -1>(r, r)", "Exp(r)"), INPUTS.replace("[s, 4] r", "[s, 1] r"))),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
