"""What is dequantised and quantised again: what is taken out, and what is spared."""

import pytest
from surgeon.patterns.requantized import requantized

from surgeon.testing import Case, check_fires, check_spares, parse


def again(first, second, dtypes=("int8", "int8")):
    """Numbers that are dequantised by one scale and zero point and quantised by others."""
    return parse(
        f"({dtypes[0]}[n, 4] x) => ({dtypes[1]}[n, 4] y) <float s = {{0.05}}, float t = {{0.5}}, float none = {{0}}, "
        "float[4] each = {0.05, 1, 2, 3}, int8 z = {3}, int8[4] zeros = {1, 0, -128, 127}> "
        f"{{ a = DequantizeLinear(x, {first}) y = QuantizeLinear(a, {second}) }}"
    )


FIRES = [
    Case(requantized, "one scale", again("s, z", "s, z")),
    Case(requantized, "a scale for each column", again("each, zeros", "each, zeros")),
    Case(requantized, "without a zero point", again("s", "s", ("uint8", "uint8"))),
]
SPARES = [
    Case(requantized, "another scale", again("s, z", "t, z"), why="scale"),
    Case(requantized, "another dtype", again("s", "s", ("int8", "uint8")), why="int8 comes back as uint8"),
    Case(requantized, "a scale of nothing", again("none, z", "none, z"), why="few digits"),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", SPARES, ids=str)
def test_spares(case):
    check_spares(case)
