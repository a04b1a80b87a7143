"""merged_heads_scores and merged_heads_values: products of one batch, of which what comes next knows two axes."""

import pytest
from surgeon.patterns.attention.attention import masked_attention
from surgeon.patterns.attention_canonicalization.flattened_batch_matmul import flattened_batch_matmul
from surgeon.patterns.attention_canonicalization.merged_heads_matmul import merged_heads_scores, merged_heads_values

from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[s, b, 32] x, float[t, b, 32] k0, float[t, b, 32] v0, bool[b, 1, 1, t] c"
CONSTANTS = (
    "int64[1] four = {4}, int64[1] eight = {8}, int64[1] any = {-1}, float scale = {0.35}, float low = {-3.4e38}, "
    "float none = {0}, "
    "int64 nil = {0}, int64 one = {1}, int64 heads = {4}, int64[1] first = {0}"
)
# Rows, a batch and heads as one axis, and eight columns; as fairseq's attention has them.
SIZES = (
    "ss = Shape(x) st = Shape(k0) b0 = Gather(ss, one) s0 = Gather(ss, nil) t0 = Gather(st, nil) n0 = Mul(b0, heads) "
    "b1 = Unsqueeze(b0, first) s1 = Unsqueeze(s0, first) t1 = Unsqueeze(t0, first) n1 = Unsqueeze(n0, first) "
    "gq = Concat<axis = 0>(s1, n1, eight) gk = Concat<axis = 0>(t1, n1, eight) "
    "g4 = Concat<axis = 0>(b1, four, s1, t1) g3 = Concat<axis = 0>(n1, s1, t1) "
)
FACTORS = (
    "q1 = Reshape(x, gq) q = Transpose<perm = [1, 0, 2]>(q1) k1 = Reshape(k0, gk) k = Transpose<perm = [1, 2, 0]>(k1) "
    "v1 = Reshape(v0, gk) v = Transpose<perm = [1, 0, 2]>(v1) "
)
SCORES = f"{SIZES} {FACTORS} a = MatMul(q, k) z = Mul(a, scale) z4 = Reshape(z, g4)"
HIDDEN = f"{SCORES} h = Where(c, z4, low)"
WHOLE = f"{HIDDEN} p = Softmax<axis = -1>(h) p3 = Reshape(p, g3) y = MatMul(p3, v)"


def graph(body, output, inputs=INPUTS):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output}) <{CONSTANTS}> {{ {body} }}")


SEVERAL = f"{SIZES} {FACTORS} p = Softmax<axis = -1>(w) p3 = Reshape(p, g3) y = MatMul(p3, v)"
# fmt: off
FIRES = [
    Case(merged_heads_scores, "scores that a mask of each batch hides",
         graph(f"{HIDDEN} y = Identity(h)", "float[b, 4, s, t] y")),
    Case(merged_heads_scores, "scores without a number",
         graph(f"{SCORES.replace('z = Mul(a, scale)', 'z = Identity(a)')} y = Relu(z4)", "float[b, 4, s, t] y")),
    Case(merged_heads_values, "values by weights of heads",
         graph(SEVERAL, "float[n, s, 8] y", f"{INPUTS}, float[b, 4, s, t] w")),
    Case(merged_heads_values, "of a row hidden whole none", graph(
        SEVERAL.replace("p3 =", "e = IsNaN(p) o = Where(e, none, p) p3 =").replace("(p, g3)", "(o, g3)"),
        "float[n, s, 8] y", f"{INPUTS}, float[b, 4, s, t] w")),
    Case([merged_heads_scores, merged_heads_values, masked_attention], "an attention", graph(WHOLE,
         "float[n, s, 8] y")),
    Case([merged_heads_scores, flattened_batch_matmul, masked_attention],
         "an attention, beside the rule for merged factors",
         graph(WHOLE, "float[n, s, 8] y")),
]
NEGATIVES = [
    Case(merged_heads_scores, "one more axis of columns", why="y has 5 axes", model=graph(
        f"{SIZES} {FACTORS} a = MatMul(q, k) g = Concat<axis = 0>(b1, four, s1, t1, o) y = Reshape(a, g)",
        "float[b, 4, s, t, 1] y", f"{INPUTS}, int64[1] o")),
    Case(merged_heads_scores, "rows that change too", why="the batch*heads of a", model=graph(
        f"{SIZES} {FACTORS} a = MatMul(q, k) g = Concat<axis = 0>(b1, s1, four, t1) y = Reshape(a, g)",
        "float[b, s, 4, t] y")),
    Case(merged_heads_scores, "one matrix for all", why="expected", model=graph(
        f"{SIZES} {FACTORS} a = MatMul(q, w) g = Concat<axis = 0>(b1, four, s1, any) y = Reshape(a, g)",
        "float[b, 4, s, 5] y", f"{INPUTS}, float[8, 5] w")),
    Case(merged_heads_values, "queries by positions, as DeBERTa has them", why="found input", model=graph(
        f"{SIZES} {FACTORS} u = Softmax(w) p3 = Reshape(w, g3) y = MatMul(p3, v)",
        "float[n, s, 8] y, float[b, 4, s, t] u", f"{INPUTS}, float[b, 4, s, t] w")),
    Case(merged_heads_values, "rows of the weights that change too", why="the batch*heads of merged", model=graph(
        f"{SIZES} {FACTORS} p = Softmax<axis = -1>(w) p3 = Reshape(p, g3) y = MatMul(p3, v)", "float[n, s, 8] y",
        f"{INPUTS}, float[b, s, 4, t] w")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
