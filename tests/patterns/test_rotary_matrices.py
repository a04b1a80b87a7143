"""Rotary embeddings by matrices, as FLUX has them: what becomes one RotaryEmbedding, what does not match and why."""

import numpy as np
import pytest
from surgeon.patterns.rotary.rotary_embedding import rotary_embedding

from surgeon.testing import Case, check_fires, check_spares, parse

FOUR = "float[b, 4, s, 8]"
INPUTS = f"{FOUR} x, float[s, 4] f"
CONSTANTS = (
    "<int64 first = {0}, int64 second = {1}, int64[1] new = {-1}, int64[1] above = {-2}, int64[1] nil = {0}, "
    "int64[1] one = {1}, int64[1] two = {2}, int64[2] axes = {0, 1}, int64[6] pairs = {0, 0, 0, 4, 1, 2}, "
    "int64[4] whole = {0, 0, 0, 8}, int64[4] square = {0, 0, 2, 2}, int64[2] behind = {0, 2}, "
    "int64[6] at_once = {0, 0, 4, 4, 1, 2}, int64[4] heads = {0, 0, 4, 8}>"
)
CURVES = "c = Cos(f) e = Sin(f) n = Neg(e) c1 = Unsqueeze(c, new) e1 = Unsqueeze(e, new) n1 = Unsqueeze(n, new)"
ROWS = (
    f"{CURVES} r1 = Concat<axis = -1>(c1, n1) r2 = Concat<axis = -1>(e1, c1) r3 = Unsqueeze(r1, above) "
    "r4 = Unsqueeze(r2, above) r5 = Concat<axis = -2>(r3, r4) r = Unsqueeze(r5, axes)"
)
AT_ONCE = f"{CURVES} r1 = Concat<axis = -1>(c1, n1, e1, c1) r2 = Reshape(r1, square) r = Unsqueeze(r2, axes)"
TAKEN = "k = Reshape(x, pairs) a = Gather<axis = -1>(k, first) d = Gather<axis = -1>(k, second)"
COLUMNS = "u = Gather<axis = 5>(r, first) v = Gather<axis = 5>(r, second)"
SUM = "m = Mul(u, a) p = Mul(v, d) q = Add(m, p) y = Reshape(q, whole)"
SPLIT = "k = Reshape(x, pairs) a1, d1 = Split<axis = -1, num_outputs = 2>(k) a = Squeeze(a1, new) d = Squeeze(d1, new)"
PRODUCTS = "k = Reshape(x, pairs) p = Mul(r, k) q = ReduceSum<keepdims = 0>(p, new) y = Reshape(q, whole)"
SUMMED = f"{AT_ONCE} {PRODUCTS}"
BEHIND = f"{AT_ONCE.replace('(r2, axes)', '(r2, behind)')} {TAKEN} {COLUMNS} {SUM}"


def graph(body, inputs=INPUTS, opset=18, output=FOUR, more=""):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output} y) {CONSTANTS.replace('>', more + '>')} {{ {body} }}")


def whole(*rows):
    """Matrices of numbers, by their elements in order."""
    numbers = np.stack(rows, -1).reshape(-1)
    return f", float[6, 4, 2, 2] r = {{{', '.join(f'{number:.4f}' for number in numbers)}}}"


def fixed(*rows):
    """Columns of numbers: the elements of matrices in order."""
    matrices = np.moveaxis(np.stack(rows, -1).reshape(6, 4, 2, 2), -1, 0)
    reported = (f", float[6, 4, 2] {name} = {{{', '.join(f'{number:.4f}' for number in column.reshape(-1))}}}"
            for name, column in zip("uv", matrices, strict=True))
    return graph(f"{TAKEN} {SUM}", "float[b, 4, 6, 8] x", output="float[b, 4, 6, 8]", more="".join(reported))


ANGLES = np.arange(24).reshape(6, 4) / 7
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
# fmt: off
FIRES = [
    Case(rotary_embedding, "rows that are stacked", graph(f"{ROWS} {TAKEN} {COLUMNS} {SUM}")),
    Case(rotary_embedding, "the standard op", graph(f"{ROWS} {TAKEN} {COLUMNS} {SUM}", opset=23), target="onnx"),
    Case(rotary_embedding, "elements that are stacked", graph(f"{AT_ONCE} {TAKEN} {COLUMNS} {SUM}")),
    Case(rotary_embedding, "neighbours that are split", graph(f"{AT_ONCE} {SPLIT} {COLUMNS} {SUM}")),
    Case(rotary_embedding, "heads behind rows", graph(
        BEHIND, INPUTS.replace("[b, 4, s, 8]", "[b, s, 4, 8]"), output="float[b, s, 4, 8]")),
    Case(rotary_embedding, "heads that are split into pairs at once", graph(
        BEHIND.replace("pairs)", "at_once)").replace("whole)", "heads)"), INPUTS.replace(FOUR, "float[b, s, 32]"),
        output="float[b, s, 4, 8]")),
    Case(rotary_embedding, "matrices that are transposed, which turn the other way", graph(
        f"{AT_ONCE} {TAKEN} {COLUMNS} {SUM}".replace("(c1, n1, e1, c1)", "(c1, e1, n1, c1)"))),
    Case(rotary_embedding, "products that are summed", graph(SUMMED)),
    Case(rotary_embedding, "products that are summed, the standard op", graph(SUMMED, opset=23), target="onnx"),
    Case(rotary_embedding, "transposed matrices by which products are summed", graph(
        SUMMED.replace("(c1, n1, e1, c1)", "(c1, e1, n1, c1)"))),
    Case(rotary_embedding, "products of stacked rows", graph(f"{ROWS} {PRODUCTS}")),
    Case(rotary_embedding, "products of fixed matrices", graph(
        PRODUCTS, "float[b, 4, 6, 8] x", output="float[b, 4, 6, 8]", more=whole(COS, -SIN, SIN, COS))),
    Case(rotary_embedding, "fixed matrices", fixed(COS, -SIN, SIN, COS)),
]
NEGATIVES = [
    Case(rotary_embedding, "matrices that are given", why="must contain cosines and sines", model=graph(
        f"{TAKEN} {COLUMNS} {SUM}", f"{FOUR} x, float[1, 1, s, 4, 2, 2] r")),
    Case(rotary_embedding, "matrices that reflect", why="must contain cosines and sines", model=graph(
        f"{AT_ONCE} {TAKEN} {COLUMNS} {SUM}".replace("Neg(e)", "Neg(c)").replace("n1, e1, c1)", "e1, e1, n1)"))),
    Case(rotary_embedding, "no sine that is negative", why="must contain cosines and sines", model=graph(
        f"{AT_ONCE} {TAKEN} {COLUMNS} {SUM}".replace("(c1, n1, e1, c1)", "(c1, e1, e1, c1)"))),
    Case(rotary_embedding, "two cosines", why="must contain cosines and sines", model=graph(
        f"{AT_ONCE} {TAKEN} {COLUMNS} {SUM}".replace("e1, c1)", "e1, w1)").replace(" r1 =", " w1 = Tanh(c1) r1 ="))),
    Case(rotary_embedding, "the columns in the other order", why="must contain cosines and sines", model=graph(
        f"{AT_ONCE} {TAKEN} {COLUMNS} {SUM}".replace("m = Mul(u, a) p = Mul(v, d)", "m = Mul(v, a) p = Mul(u, d)"))),
    Case(rotary_embedding, "products of matrices that are given", why="must contain cosines and sines",
         model=graph(SUMMED.replace("r1 =", "r0 =").replace("e1, c1)", "e1, e1) r1 = Tanh(r0)"))),
    Case(rotary_embedding, "products of fixed matrices that differ in one number", why="must contain cosines",
         model=graph(PRODUCTS, "float[b, 4, 6, 8] x", output="float[b, 4, 6, 8]",
                     more=whole(COS, -SIN, SIN + (ANGLES[2, 1] == ANGLES), COS))),
    Case(rotary_embedding, "products with no sine that is negative", why="must contain cosines and sines",
         model=graph(SUMMED.replace("(c1, n1, e1, c1)", "(c1, e1, e1, c1)"))),
    Case(rotary_embedding, "products summed over the other axis", why="expected",
         model=graph(SUMMED.replace("(p, new)", "(p, above)"))),
    Case(rotary_embedding, "one column for both", why="must contain cosines and sines", model=graph(
        f"{AT_ONCE} {TAKEN} {COLUMNS} {SUM}".replace("(r, second)", "(r, first)"))),
    Case(rotary_embedding, "fixed matrices that differ in one number", why="must contain cosines and sines",
         model=fixed(COS, -SIN, SIN + (ANGLES[2, 1] == ANGLES), COS)),
    Case(rotary_embedding, "columns of one number", why="must contain cosines and sines", model=graph(
        f"{TAKEN} m = Mul(u, a) p = Mul(v, d) q = Add(m, p) y = Reshape(q, half)",
        f"{FOUR} x, float[1, 1, s, 4, 1] u, float[1, 1, s, 4, 1] v", output="float[b, 4, s, 4]",
        more=", int64[4] half = {0, 0, 0, 4}")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
