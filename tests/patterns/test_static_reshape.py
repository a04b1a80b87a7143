"""static_reshape: shapes of another tensor as numbers, what does not match and why."""

import pytest
from surgeon.patterns.layout.static_reshape import static_reshape

from surgeon.testing import Case, check_fires, check_spares, parse


def graph(x="b, 4, 4, 4", o="b, 16, 4", body="s = Shape(a) y = Reshape(x, s)", opset=17):
    header = f'<ir_version: 9, opset_import: ["" : {opset}]> g'
    return parse(f"{header} (float[{x}] x, float[{o}] o) => (float[{o}] y) {{ a = Abs(o) {body} }}")


# fmt: off
FIRES = [
    Case(static_reshape, "one free size", graph()),
    Case(static_reshape, "fixed sizes", graph("2, 4, 8", "8, 8")),
    Case(static_reshape, "where a zero would be a zero", graph(body="s = Shape(a) y = Reshape<allowzero = 1>(x, s)")),
]
NEGATIVES = [
    Case(static_reshape, "two free sizes", why="two sizes of the result", model=graph("b, 4, s, 4", "b, s, 16")),
    Case(static_reshape, "a size of zero", why="two sizes of the result", model=graph("b, 4, 0, 4", "b, 16, 0")),
    Case(static_reshape, "a part of a shape", why="expected",
         model=graph("4, 4, 4, 4", "16, 16", "s = Shape<start = 0, end = 1>(a) t = Concat<axis = 0>(s, s) "
                     "y = Reshape(x, t)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
