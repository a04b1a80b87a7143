"""concatenated_values: weights that two values meet, what does not match and why."""

import pytest
from surgeon.patterns.attention.attention import attention
from surgeon.patterns.attention_canonicalization.concatenated_values import concatenated_values

from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[b, 4, s, 8] q, float[b, 4, 8, t] k, float[b, 4, t, 8] v, float[b, 4, t, 6] w"
BOTH = "a = MatMul(q, k) p = Softmax<axis = -1>(a) c = MatMul(p, v) d = MatMul(p, w)"
BESIDE = f"{BOTH} y = Concat<axis = -1>(c, d)"
ROWS = f"{BOTH} e = Transpose<perm = [0, 2, 1, 3]>(c) f = Transpose<perm = [0, 2, 1, 3]>(d) y = Concat<axis = -1>(e, f)"

GUARDED = BESIDE.replace("c = ", "n = IsNaN(p) o = Where(n, zero, p) c = ").replace("MatMul(p", "MatMul(o")


def graph(body, output="float[b, 4, s, 14] y"):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({INPUTS}) => ({output}) <float zero = {{0}}> {{ {body} }}")


BEHIND = "float[b, s, 4, 14] y"
# fmt: off
FIRES = [
    Case(concatenated_values, "side by side", graph(BESIDE)),
    Case(concatenated_values, "the second first", graph(BESIDE.replace("(c, d)", "(d, c)"))),
    Case(concatenated_values, "behind the rows", graph(ROWS, BEHIND)),
    Case(concatenated_values, "weights without NaN", graph(GUARDED)),
    Case([concatenated_values, attention], "an attention of weights without NaN", graph(GUARDED)),
    Case([concatenated_values, attention], "an attention", graph(ROWS, BEHIND)),
]
NEGATIVES = [
    Case(concatenated_values, "the first of weights without NaN, the second with it", why="must be the same tensor",
         model=graph(GUARDED.replace("d = MatMul(o", "d = MatMul(p"))),
    Case(concatenated_values, "the second of weights without NaN, the first with it", why="must be the same tensor",
         model=graph(GUARDED.replace("c = MatMul(o", "c = MatMul(p"))),
    Case(concatenated_values, "weights with another number for NaN", why="expected",
         model=graph(GUARDED.replace("zero, p", "p, zero"))),
    Case(concatenated_values, "joined along another axis", why="expected",
         model=graph(BESIDE.replace("w)", "v)").replace("axis = -1>(c", "axis = 1>(c"), "float[b, 8, s, 8] y")),
    Case(concatenated_values, "weights that are given out", why="is also read",
         model=graph(f"{BESIDE} x = Neg(p)", "float[b, 4, s, 14] y, float[b, 4, s, t] x")),
    Case(concatenated_values, "scores of matrices alone", why="batch, heads, rows",
         model=parse("(float[s, t] a, float[t, 8] v, float[t, 6] w) => (float[s, 14] y) "
                     "{ p = Softmax<axis = -1>(a) c = MatMul(p, v) d = MatMul(p, w) y = Concat<axis = -1>(c, d) }")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
