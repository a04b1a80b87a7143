"""no_op_zeros: sums with zeros made for them, what is spared and why."""

import pytest
from surgeon.patterns.no_op_zeros import no_op_zeros

from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = "float zero = {0}, float two = {2}, int64[1] one = {1}"
MADE = "s = Shape(x) c = ConstantOfShape<value = float[1] {0}>(s)"
SCALED = "s = Shape(x) c = ConstantOfShape<value = float[1] {3}>(s) d = Mul(c, zero) y = Add(x, d)"


def graph(body, output="float[b, 4, t] y"):
    header = '<ir_version: 9, opset_import: ["" : 17]> g'
    return parse(f"{header} (float[b, 4, t] z) => ({output}) <{CONSTANTS}> {{ x = Abs(z) {body} }}")


# fmt: off
FIRES = [
    Case(no_op_zeros, "zeros", graph(f"{MADE} y = Add(x, c)")),
    Case(no_op_zeros, "zeros added first", graph(f"{MADE} y = Add(c, x)")),
    Case(no_op_zeros, "without a value, which is then 0", graph("s = Shape(x) c = ConstantOfShape(s) y = Add(x, c)")),
    Case(no_op_zeros, "numbers times zero, as baddbmm has it", graph(SCALED)),
    Case(no_op_zeros, "zeros times a number", graph(f"{MADE} d = Mul(c, two) y = Add(x, d)")),
]
SPARES = [
    Case(no_op_zeros, "ones", why="not zero", model=graph(f"{MADE.replace('{0}', '{1}')} y = Add(x, c)")),
    Case(no_op_zeros, "numbers times two", why="not zero", model=graph(SCALED.replace("zero", "two"))),
    Case(no_op_zeros, "infinity times zero", why="not zero",
         model=graph(SCALED.replace("float[1] {3}", "float[1] {inf}"))),
    Case(no_op_zeros, "more axes", why="another shape",
         model=graph("s = Shape(x) u = Concat<axis = 0>(one, s) c = ConstantOfShape<value = float[1] {0}>(u) "
                     "y = Add(x, c)", "float[1, b, 4, t] y")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", SPARES, ids=str)
def test_spares(case):
    check_spares(case)
