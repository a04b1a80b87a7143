"""A swap of the last two axes between reshapes: what becomes one Transpose, what does not match and why."""

import pytest
from surgeon.patterns.layout.consecutive_reshapes import consecutive_reshapes
from surgeon.patterns.layout.transpose_between_reshapes import transpose_between_reshapes

from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = "int64[3] three = {-1, 5, 8}, int64[4] four = {2, 4, 8, 5}, int64[4] other = {4, 2, 8, 5}"
BODY = "a = Reshape(x, three) b = Transpose<perm = [0, 2, 1]>(a) c = Reshape(b, four) y = Relu(c)"
ONES = "a = Reshape<allowzero = 1>(x, three) b = Transpose<perm = [0, 2, 1]>(a) c = Reshape<allowzero = 1>(b, four)"


def graph(body, made="2, 4, 8, 5", constants=CONSTANTS, inputs="float[2, 4, 5, 8] x"):
    header = '<ir_version: 9, opset_import: ["" : 17]> g'
    return parse(f"{header} ({inputs}) => (float[{made}] y) <{constants}> {{ {body} }}")


FREE = (
    '<ir_version: 9, opset_import: ["" : 17]> g (float[b, 4, s, 8] x) => (float[b, 4, 8, s] y) <int64[1] m = {-1}, '
    "int64[1] h = {4}, int64[1] d = {8}, int64[1] n = {0}, int64[1] o = {1}, int64[1] w = {2}, int64[1] r = {3}> { "
    "z = Shape(x) l = Slice(z, n, o) k = Slice(z, w, r) t = Concat<axis = 0>(m, k, d) f = Concat<axis = 0>(l, h, d, k) "
    "a = Reshape(x, t) b = Transpose<perm = [0, 2, 1]>(a) c = Reshape(b, f) y = Relu(c) }"
)
# fmt: off
FIRES = [
    Case(transpose_between_reshapes, "fixed sizes", graph(BODY)),
    Case(transpose_between_reshapes, "targets in which a zero would be a zero", graph(f"{ONES} y = Relu(c)")),
    Case(transpose_between_reshapes, "sizes that are computed", parse(FREE)),
    Case(transpose_between_reshapes, "more axes before", graph(BODY, inputs="float[2, 1, 4, 5, 8] x")),
    Case(transpose_between_reshapes, "other axes before", graph(BODY, inputs="float[8, 40] x")),
]
NEGATIVES = [
    Case(transpose_between_reshapes, "the axes before are parted otherwise", why="swap only the last two axes",
         model=graph(BODY.replace("(b, four)", "(b, other)"), "4, 2, 8, 5")),
    Case(transpose_between_reshapes, "the first reshape parts the last axes otherwise", why="changes the last two axes",
         model=graph(BODY.replace("(b, four)", "(b, same)"), "2, 4, 5, 8",
                     CONSTANTS.replace("{-1, 5, 8}", "{-1, 8, 5}") + ", int64[4] same = {2, 4, 5, 8}")),
    Case(transpose_between_reshapes, "more axes before, and the last two parted otherwise",
         why="changes the last two axes",
         model=graph(BODY.replace("(b, four)", "(b, same)"), "2, 4, 5, 8", CONSTANTS + ", int64[4] same = {2, 4, 5, 8}",
                     "float[2, 1, 4, 5, 8] x")),
    Case(transpose_between_reshapes, "another order of axes", why="expected perm",
         model=graph(BODY.replace("[0, 2, 1]", "[1, 0, 2]"))),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_what_a_zero_in_the_first_target_means_does_not_matter():
    """Two reshapes become one, also where the first is written with allowzero."""
    body = "a = Reshape<allowzero = 1>(x, three) b = Reshape(a, flat) y = Relu(b)"
    check_fires(Case(consecutive_reshapes, "", graph(body, "320", CONSTANTS + ", int64[1] flat = {-1}")))
