"""subtracted_mask: masks that are taken from scores, what does not match and why."""

import pytest
from surgeon.patterns.attention.attention import attention
from surgeon.patterns.attention_canonicalization.scale_after_mask import scale_after_mask
from surgeon.patterns.attention_canonicalization.subtracted_mask import subtracted_mask

from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = (
    "float[b, 4, s, 8] q, float[b, 4, 8, t] k, float[b, 4, t, 8] v, float[b, 4, s, t] p, float[b, 1, s, t] r, "
    "float[b, 1, 1, t] m"
)
HIDDEN = "h = Mul(m, large)"
PLAIN = f"a = MatMul(q, k) {HIDDEN} x = Sub(a, h)"
BIASED = f"a = MatMul(q, k) z = Add(a, p) w = Mul(z, scale) {HIDDEN} x = Sub(w, h)"
TWICE = f"a = MatMul(q, k) z = Add(a, p) w = Add(z, r) {HIDDEN} x = Sub(w, h)"
SOFT, END = "y = Softmax<axis = -1>(x)", "o = Softmax<axis = -1>(x) y = MatMul(o, v)"


def graph(body, output="float[b, 4, s, t] y", inputs=INPUTS):
    header = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g'
    return parse(f"{header} ({inputs}) => ({output}) <float large = {{1e30}}, float scale = {{0.25}}> {{ {body} }}")


def attended(body):
    return graph(f"{body} {END}", "float[b, 4, s, 8] y")


# fmt: off
FIRES = [
    Case(subtracted_mask, "from the scores", graph(f"{PLAIN} {SOFT}")),
    Case(subtracted_mask, "from the scores, scaled", graph(f"{PLAIN.replace('Sub(a', 'Sub(e')} {SOFT}".replace(
        "h = Mul", "e = Mul(a, scale) h = Mul"))),
    Case(subtracted_mask, "a product that another reads", graph(
        f"{PLAIN} {SOFT} n = Neg(h)", "float[b, 4, s, t] y, float[b, 1, 1, t] n")),
    Case([subtracted_mask, attention], "an attention", attended(PLAIN)),
    Case([subtracted_mask, scale_after_mask, attention], "scores scaled with a bias, as XLNet has them",
         attended(BIASED)),
    Case([subtracted_mask, attention], "scores with two biases, as Funnel has them", attended(TWICE)),
]
NEGATIVES = [
    Case(subtracted_mask, "a mask that is added by the opposite sign", why="added already",
         model=graph(f"a = MatMul(q, k) {HIDDEN} n = Neg(h) x = Add(a, n) {SOFT}")),
    Case(subtracted_mask, "one number for each row", why="one number for each row",
         model=graph(f"a = MatMul(q, k) x = Sub(a, h) {SOFT}", inputs=f"{INPUTS}, float[b, 4, s, 1] h")),
    Case(subtracted_mask, "the largest number of each row", why="is also read",
         model=graph(f"a = MatMul(q, k) h = ReduceMax<axes = [-1]>(a) x = Sub(a, h) {SOFT}")),
    Case(subtracted_mask, "another product of matrices", why="is a product of matrices",
         model=graph(f"a = MatMul(q, k) h = MatMul(p, u) x = Sub(a, h) {SOFT}", inputs=f"{INPUTS}, float[t, t] u")),
    Case(subtracted_mask, "scores that another reads", why="is also read",
         model=graph(f"{PLAIN} {SOFT} n = Neg(a)", "float[b, 4, s, t] y, float[b, 4, s, t] n")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
