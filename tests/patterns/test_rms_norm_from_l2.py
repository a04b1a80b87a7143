"""rms_norm_from_l2: root mean square normalisation by the length of a row, what does not match and why."""

import pytest
from surgeon.patterns.norms.rms_norm_from_l2 import rms_norm_from_l2, rms_norm_from_sum

from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 5, 16] x) => (float[n, 5, 16] y)"
CONSTANTS = "float floor = {1e-12}, float four = {4}, float quarter = {0.25}, float three = {3}, float one = {1}"
CONSTANTS += ", float eps = {1e-6}, float two = {2}, int64[1] last = {-1}, int64[1] middle = {1}, float16 tiny = {17}"
CONSTANTS += ", float16 none = {0}, float16 sixteen = {17408}, float zero = {0}, float minus = {-1}"
SCALE = "float[16] g = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}"
LENGTH = "l = ReduceL2<axes = [-1]>(x) c = Clip(l, floor) d = Div(x, c) "


def graph(body, head=HEAD, opset=17):
    return parse(f'<ir_version: 8, opset_import: ["" : {opset}]> agraph {head} <{CONSTANTS}, {SCALE}> {{ {body} }}')


ROOTED = "s = Mul(x, x) l = ReduceSum(s, last) e = Add(l, eps) r = Sqrt(e) i = Reciprocal(r) "


# fmt: off
FIRES = [
    Case(rms_norm_from_sum, "a root of squares and an epsilon", graph(f"{ROOTED} y = Mul(x, i)")),
    Case(rms_norm_from_sum, "scaled by a number and a weight",
         graph(f"{ROOTED} n = Mul(x, i) m = Mul(n, three) y = Mul(g, m)")),
    Case(rms_norm_from_sum, "divided, and scaled", graph(
        "s = Pow(x, two) l = ReduceSum(s, last) e = Add(l, eps) r = Sqrt(e) n = Div(x, r) y = Mul(n, g)")),
    Case(rms_norm_from_sum, "half precision", graph(
        f"{ROOTED} y = Mul(x, i)".replace("eps)", "tiny)"), HEAD.replace("float[", "float16["))),
    Case(rms_norm_from_l2, "torch's normalize, times the root of the width",
         graph("l = ReduceL2<axes = [-1]>(x) c = Clip(l, floor) s = Shape(x) e = Expand(c, s) d = Div(x, e) "
               "y = Mul(d, four)")),
    Case(rms_norm_from_l2, "scaled", graph(f"{LENGTH} r = Mul(d, four) y = Mul(r, g)")),
    Case(rms_norm_from_l2, "scaled first", graph(f"{LENGTH} r = Mul(g, d) y = Mul(r, four)")),
    Case(rms_norm_from_l2, "the root is part of the scale", graph(f"{LENGTH} y = Mul(d, g)")),
    Case(rms_norm_from_l2, "another number than the root", graph(f"{LENGTH} y = Mul(d, three)")),
    Case(rms_norm_from_l2, "the root on the length",
         graph("l = ReduceL2<axes = [-1]>(x) r = Mul(l, quarter) c = Clip(r, floor) d = Div(x, c) y = Mul(d, g)")),
    Case(rms_norm_from_l2, "a maximum",
         graph("l = ReduceL2<axes = [-1]>(x) c = Max(l, floor) d = Div(x, c) y = Mul(d, g)")),
    Case(rms_norm_from_l2, "a floor that is 0 in half precision",
         graph(f"{LENGTH} y = Mul(d, sixteen)".replace("floor", "none"), HEAD.replace("float[", "float16["))),
    Case(rms_norm_from_l2, "a scale that is an input",
         graph(f"{LENGTH} r = Mul(d, three) y = Mul(r, w)", "(float[n, 5, 16] x, float[16] w) => (float[n, 5, 16] y)")),
]
NEGATIVES = [
    Case(rms_norm_from_l2, "over another axis", why="the axes must be the last ones",
         model=graph(f"{LENGTH} y = Mul(d, four)".replace("[-1]", "[1]"))),
    Case(rms_norm_from_l2, "a floor that shows", why="the floor is 1",
         model=graph(f"{LENGTH} y = Mul(d, four)".replace("l, floor", "l, one"))),
    Case(rms_norm_from_l2, "a floor that is all there is", why="must be positive",
         model=graph("l = ReduceL2<axes = [-1]>(x) r = Mul(l, minus) c = Clip(r, zero) d = Div(x, c) "
                     "y = Mul(d, four)")),
    Case(rms_norm_from_l2, "no number behind it", why="expected",
         model=graph(f"{LENGTH} y = Neg(d)")),
    Case(rms_norm_from_l2, "the length of something else", why="must be the same tensor",
         model=graph("h = Neg(x) l = ReduceL2<axes = [-1]>(h) c = Clip(l, floor) d = Div(x, c) y = Mul(d, four)")),
    Case(rms_norm_from_l2, "a sum of magnitudes", why="the model has no Pow or ReduceL2",
         model=graph(f"{LENGTH} y = Mul(d, four)".replace("ReduceL2", "ReduceL1"))),
    Case(rms_norm_from_sum, "a mean", why="the model has no ReduceSum",
         model=graph(f"{ROOTED.replace('ReduceSum', 'ReduceMean')} y = Mul(x, i)", opset=18)),
    Case(rms_norm_from_sum, "over another axis", why="the axes must be the last ones",
         model=graph(f"{ROOTED} y = Mul(x, i)".replace("last)", "middle)"))),
    Case(rms_norm_from_sum, "a width that is free", why="sizes of the axes must be known",
         model=graph(f"{ROOTED} y = Mul(x, i)", "(float[n, 5, w] x) => (float[n, 5, w] y)")),
    Case(rms_norm_from_l2, "a width that is free", why="sizes of the axes must be known",
         model=graph(f"{LENGTH} y = Mul(d, four)", "(float[n, 5, w] x) => (float[n, 5, w] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
