"""spread_number: numbers that a node spreads itself, and what is spared and why."""

import pytest
from surgeon.patterns.cleanup.spread_numbers import spread_number

from surgeon.testing import Case, check_fires, check_spares, parse

CONSTANTS = (
    "float zero = {0}, int64[1] one = {1}, float[2, 2] zeros = {0, 0, 0, 0}, float[2, 2] some = {0, 0, 0, -0.5}, "
    "float[1] scalar = {0}"
)
ZEROS = "s = Shape(x) z = ConstantOfShape(s) "
ONES = "s = Shape(x) z = ConstantOfShape<value = float[1] {1}>(s) "
SPREAD = "s = Shape(x) z = Expand(zero, s) "


def graph(body, shape="n, 2", output="float[n, 2] y", more="", opset=17):
    header = f'<ir_version: 9, opset_import: ["" : {opset}]> g'
    return parse(f"{header} (float[{shape}] x{more}) => ({output}) <{CONSTANTS}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(spread_number, "a maximum with zeros_like, by TorchScript", graph(f"{ZEROS} y = Max(x, z)")),
    Case(spread_number, "a minimum, by dynamo", graph(f"{SPREAD} y = Min(z, x)")),
    Case(spread_number, "folded into the file", graph("y = Max(x, zeros)", "2, 2", "float[2, 2] y")),
    Case(spread_number, "folded, of fewer axes", graph("y = Min(x, zeros)", "n, 2, 2", "float[n, 2, 2] y")),
    Case(spread_number, "a comparison", graph(f"{ONES} y = Less(x, z)", output="bool[n, 2] y")),
    Case(spread_number, "a comparison, the other way round", graph(f"{ONES} y = Less(z, x)", output="bool[n, 2] y")),
    Case(spread_number, "chosen elsewhere", graph(f"{ZEROS} c = Greater(x, zero) y = Where(c, x, z)")),
    Case(spread_number, "chosen", graph(f"{ONES} c = Greater(x, zero) y = Where(c, z, x)")),
    Case(spread_number, "chosen by what has the sizes, beside one number",
         graph(f"{ONES} c = Greater(x, zero) y = Where(c, z, zero)")),
    Case(spread_number, "what others read too", graph(f"{ZEROS} a = Max(x, z) y = Sub(a, z)")),
]
SPARES = [
    Case(spread_number, "several numbers that are spread", why="several numbers are spread",
         model=graph("s = Shape(x) z = Expand(some, s) y = Max(x, z)", "n, 2, 2", "float[n, 2, 2] y")),
    Case(spread_number, "numbers that differ", why="not all the same",
         model=graph("y = Max(x, some)", "2, 2", "float[2, 2] y")),
    Case(spread_number, "one number as it is", why="one number already", model=graph("y = Max(x, scalar)")),
    Case(spread_number, "more numbers than what is beside them", why="the sizes of the numbers",
         model=graph("z = ConstantOfShape(t) y = Max(x, z)", output="float[a, b] y", more=", int64[2] t")),
    Case(spread_number, "of more axes than what is beside them", why="the sizes of the numbers",
         model=graph("y = Max(x, zeros)", "2", "float[2, 2] y")),
    Case(spread_number, "a sum", why="there is no", model=graph(f"{ONES} y = Add(x, z)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", SPARES, ids=str)
def test_spares(case):
    check_spares(case)
