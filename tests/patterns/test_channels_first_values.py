"""channels_first_values and transposed_softmax: attentions of which the weights are turned, what is not, and why."""

import pytest
from surgeon.patterns.attention.attention import attention
from surgeon.patterns.attention_canonicalization.channels_first_values import channels_first_values
from surgeon.patterns.attention_canonicalization.transposed_softmax import transposed_softmax

from surgeon.testing import Case, check_fires, check_spares, parse

CHANNELS = "float[b, c, s] q, float[b, c, t] k, float[b, d, t] v"
HEADS = "float[b, 4, 8, s] q, float[b, 4, 8, t] k, float[b, 4, 6, t] v"
SCORES = "r = Transpose<perm = [0, 2, 1]>(q) a = MatMul(r, k) p = Softmax<axis = -1>(a)"
TURNED = f"{SCORES} u = Transpose<perm = [0, 2, 1]>(p) y = MatMul(v, u)"
OF_HEADS = TURNED.replace("[0, 2, 1]", "[0, 1, 3, 2]").replace("a = ", "m = ").replace("p = ", "a = Mul(m, h) p = ")
GUARDED = TURNED.replace("u = ", "n = IsNaN(p) o = Where(n, zero, p) u = ").replace("1]>(p)", "1]>(o)")
ROWS = "float[b, s, 4, 8] q, float[b, t, 4, 8] k, float[b, t, 4, 8] v"
LAST = (
    "r = Transpose<perm = [0, 2, 1, 3]>(q) l = Transpose<perm = [0, 2, 3, 1]>(k) w = Transpose<perm = [0, 2, 1, 3]>(v) "
    "a = MatMul(r, l) m = Transpose<perm = [0, 2, 3, 1]>(a) n = Mul(m, h) p = Softmax<axis = 2>(n) "
    "u = Transpose<perm = [0, 3, 1, 2]>(p) y = MatMul(u, w)"
)
BEHIND = (
    "r = Transpose<perm = [0, 2, 1, 3]>(q) l = Transpose<perm = [0, 2, 3, 1]>(k) w = Transpose<perm = [0, 2, 1, 3]>(v) "
    "a = MatMul(r, l) m = Transpose<perm = [0, 2, 1, 3]>(a) n = Mul(m, h) o = Add(n, z) p = Softmax<axis = -1>(o) "
    "u = Transpose<perm = [0, 2, 1, 3]>(p) y = MatMul(u, w)"
)


def graph(body, inputs=CHANNELS, output="float[b, d, s] y"):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1, "my" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output}) <float zero = {{0}}, float h = {{0.25}}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(channels_first_values, "of one head", graph(TURNED)),
    Case(channels_first_values, "weights without NaN", graph(GUARDED)),
    Case([channels_first_values, attention], "an attention of one head", graph(TURNED)),
    Case([channels_first_values, attention], "an attention of several",
         graph(OF_HEADS, HEADS, "float[b, 4, 6, s] y")),
    Case(transposed_softmax, "heads behind rows and keys", graph(LAST, ROWS, "float[b, 4, s, 8] y")),
    Case(transposed_softmax, "without a scale",
         graph(LAST.replace("n = Mul(m, h) ", "").replace("(n)", "(m)"), ROWS, "float[b, 4, s, 8] y")),
    Case(transposed_softmax, "turned otherwise than before",
         graph("m = Transpose<perm = [1, 0, 2]>(q) p = Softmax<axis = 0>(m) y = Transpose<perm = [1, 2, 0]>(p)",
               "float[b, c, s] q", "float[b, s, c] y")),
    Case([transposed_softmax, attention], "an attention whose scores have the heads last",
         graph(LAST, ROWS, "float[b, 4, s, 8] y")),
    Case(transposed_softmax, "a bias", graph(BEHIND, f"{ROWS}, float[b, s, 4, t] z", "float[b, 4, s, 8] y")),
    Case(transposed_softmax, "a bias of fewer axes", graph(BEHIND, f"{ROWS}, float[s, 1, t] z", "float[b, 4, s, 8] y")),
    Case(transposed_softmax, "a bias of one number", graph(BEHIND, f"{ROWS}, float z", "float[b, 4, s, 8] y")),
    Case([transposed_softmax, attention], "an attention with a bias whose scores have the heads behind the rows",
         graph(BEHIND, f"{ROWS}, float[s, 1, t] z", "float[b, 4, s, 8] y")),
]
NEGATIVES = [
    Case(channels_first_values, "weights that are not turned", why="expected Transpose",
         model=graph(f"{SCORES} y = MatMul(v, p)", CHANNELS.replace("d, t] v", "d, s] v"), "float[b, d, t] y")),
    Case(channels_first_values, "what is no softmax", why="the model has no Softmax",
         model=graph(TURNED.replace("Softmax<axis = -1>", "Relu"))),
    Case(channels_first_values, "a batch that is turned too", why="only the last two axes",
         model=graph(TURNED.replace("perm = [0, 2, 1]>(p)", "perm = [2, 1, 0]>(p)"),
                     "float[3, c, 3] q, float[3, c, 3] k, float[3, d, 3] v", "float[3, d, 3] y")),
    Case(channels_first_values, "weights that are given out", why="is also read",
         model=graph(f"{TURNED} z = Neg(p)", output="float[b, d, s] y, float[b, s, t] z")),
    Case(transposed_softmax, "an axis that is not the last behind it", why="must be the last one",
         model=graph(LAST.replace("axis = 2>", "axis = 1>"), ROWS, "float[b, 4, s, 8] y")),
    Case(transposed_softmax, "a bias of unknown rank", why="is unknown or above",
         model=graph(f"e = my.Sizes(c) z = Expand(c, e) {BEHIND}",
                     f"{ROWS}, float c", "float[b, 4, s, 8] y")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
