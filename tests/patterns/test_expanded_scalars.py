"""expanded_scalars: numbers that a node spreads itself, and what does not match and why."""

import pytest
from surgeon.patterns.cleanup.expanded_scalars import expanded_scalars

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
    Case(expanded_scalars, "a maximum with zeros_like, by TorchScript", graph(f"{ZEROS} y = Max(x, z)")),
    Case(expanded_scalars, "a minimum, by dynamo", graph(f"{SPREAD} y = Min(z, x)")),
    Case(expanded_scalars, "folded into the file", graph("y = Max(x, zeros)", "2, 2", "float[2, 2] y")),
    Case(expanded_scalars, "folded, of fewer axes", graph("y = Min(x, zeros)", "n, 2, 2", "float[n, 2, 2] y")),
    Case(expanded_scalars, "a comparison", graph(f"{ONES} y = Less(x, z)", output="bool[n, 2] y")),
    Case(expanded_scalars, "a comparison, the other way round", graph(f"{ONES} y = Less(z, x)", output="bool[n, 2] y")),
    Case(expanded_scalars, "chosen elsewhere", graph(f"{ZEROS} c = Greater(x, zero) y = Where(c, x, z)")),
    Case(expanded_scalars, "chosen", graph(f"{ONES} c = Greater(x, zero) y = Where(c, z, x)")),
    Case(expanded_scalars, "chosen by what has the sizes, beside one number",
         graph(f"{ONES} c = Greater(x, zero) y = Where(c, z, zero)")),
    Case(expanded_scalars, "what others read too", graph(f"{ZEROS} a = Max(x, z) y = Sub(a, z)")),
]
NEGATIVES = [
    Case(expanded_scalars, "several numbers that are spread", why="more than one number is expanded",
         model=graph("s = Shape(x) z = Expand(some, s) y = Max(x, z)", "n, 2, 2", "float[n, 2, 2] y")),
    Case(expanded_scalars, "numbers that differ", why="numbers of the stored tensor differ",
         model=graph("y = Max(x, some)", "2, 2", "float[2, 2] y")),
    Case(expanded_scalars, "one number as it is", why="already a single number", model=graph("y = Max(x, scalar)")),
    Case(expanded_scalars, "more numbers than what is beside them", why="the sizes of the filled tensor",
         model=graph("z = ConstantOfShape(t) y = Max(x, z)", output="float[a, b] y", more=", int64[2] t")),
    Case(expanded_scalars, "of more axes than what is beside them", why="the sizes of the filled tensor",
         model=graph("y = Max(x, zeros)", "2", "float[2, 2] y")),
    Case(expanded_scalars, "a sum", why="the model has no", model=graph(f"{ONES} y = Add(x, z)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
