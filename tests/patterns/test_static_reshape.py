"""static_reshape: computed target shapes as constants, what does not match and why."""

import pytest
from surgeon.patterns.layout.static_reshape import static_reshape

from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = "<int64 i = {0}, int64 j = {1}, int64[1] k = {0}, int64[1] two = {2}, int64[1] m = {8}, int64[1] o = {-1}>"
SIZES = "s = Shape(x) b = Gather(s, i) r = Gather(s, j) bs = Unsqueeze(b, k) rs = Unsqueeze(r, k)"


def graph(x="b, 4, 4, 4", o="b, 16, 4", body="s = Shape(a) y = Reshape(x, s)", opset=17):
    header = f'<ir_version: 9, opset_import: ["" : {opset}]> g'
    return parse(f"{header} (float[{x}] x, float[{o}] o) => (float[{o}] y) {{ a = Abs(o) {body} }}")


def sizes(body, more="", outputs="", x="b, s, 16", zero=0):
    header = '<ir_version: 9, opset_import: ["" : 17]> g'
    reshape = f"y = Reshape<allowzero = {zero}>(x, t)"
    return parse(f"{header} (float[{x}] x{more}) => (float[] y{outputs}) {CONSTANTS} {{ {body} {reshape} }}")


# fmt: off
FIRES = [
    Case(static_reshape, "one free size", graph()),
    Case(static_reshape, "fixed sizes", graph("2, 4, 8", "8, 8")),
    Case(static_reshape, "where a zero would be a zero", graph(body="s = Shape(a) y = Reshape<allowzero = 1>(x, s)")),
    Case(static_reshape, "sizes of x on their axes", sizes(f"{SIZES} t = Concat<axis = 0>(bs, rs, m, two)")),
    Case(static_reshape, "the same, where a zero is a zero",
         sizes(f"{SIZES} t = Concat<axis = 0>(bs, rs, m, two)", zero=1)),
    Case(static_reshape, "a size behind the batch that x does not have",
         sizes(f"{SIZES} p = Mul(rs, two) t = Concat<axis = 0>(bs, p, m)")),
    Case(static_reshape, "a size that was left open", sizes(f"{SIZES} t = Concat<axis = 0>(bs, rs, o, two)")),
    Case(static_reshape, "sizes through Casts",
         sizes(f"{SIZES} w = Cast<to = 1>(rs) n = Cast<to = 7>(w) t = Concat<axis = 0>(bs, n, m, two)")),
    Case(static_reshape, "sizes of another tensor with the same dims",
         sizes("p = Shape<start = 0, end = 2>(o) t = Concat<axis = 0>(p, m, two)", ", float[b, s] o")),
    Case(static_reshape, "a size of x on another axis", sizes(f"{SIZES} t = Concat<axis = 0>(rs, two)", x="2, s")),
    Case(static_reshape, "sizes that are read elsewhere",
         sizes(f"{SIZES} t = Concat<axis = 0>(bs, rs, m, two)", outputs=", int64[4] t, int64 r")),
]
NEGATIVES = [
    Case(static_reshape, "two sizes that x does not have", why="two sizes of the result",
         model=sizes(f"{SIZES} t = Concat<axis = 0>(rs, bs, m, two)")),
    Case(static_reshape, "a size of zero", why="two sizes of the result", model=graph("b, 4, 0, 4", "b, 16, 0")),
    Case(static_reshape, "an inner size of x that may be 0", why="no size can be left open",
         model=sizes(f"{SIZES} p = Mul(bs, two) t = Concat<axis = 0>(p, rs, m)")),
    Case(static_reshape, "a target shape that is an input", why="the target shape is unknown",
         model=sizes("", ", int64[3] t")),
    Case(static_reshape, "a constant target shape", why="already constant",
         model=sizes("t = Concat<axis = 0>(o, m)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
