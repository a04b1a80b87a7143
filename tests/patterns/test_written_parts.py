"""Columns written into a tensor that they fill: what is joined instead, what is spared and why."""

import pytest
from surgeon.patterns.written_parts import written_parts

from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "float[n, s, 3] a, float[n, s, 3] b, float[6, s, n] x"
TURNS = "int64[3, 1] p = {0, 2, 4}, int64[3, 1] q = {1, 3, 5}"
HALVES = "int64[3, 1] p = {0, 1, 2}, int64[3, 1] q = {3, 4, 5}"


def graph(places=TURNS, perm="[2, 1, 0]", inputs=INPUTS, more=""):
    header = '<ir_version: 10, opset_import: ["" : 17]> g'
    return parse(f"{header} ({inputs}) => (float[i, j, k] y{', float[i, j, k] z' * bool(more)}) <{places}> {{"
                 f"at = Transpose<perm = {perm}>(a) bt = Transpose<perm = {perm}>(b) "
                 f"once = ScatterND(x, p, at) y = ScatterND(once, q, bt) {more} }}")


FIRES = [
    Case(written_parts, "by turns", graph()),
    Case(written_parts, "one behind the other", graph(HALVES)),
]
SPARES = [
    Case(written_parts, "a whole that is not filled", graph(inputs=INPUTS.replace("6,", "7,")), why="fill the whole"),
    Case(written_parts, "another order", graph(TURNS.replace("0, 2, 4", "0, 4, 2")), why="stand otherwise"),
    Case(written_parts, "the same places twice", graph(TURNS.replace("1, 3, 5", "0, 2, 4")), why="stand otherwise"),
    Case(written_parts, "rows", why="not the last axis", model=graph(
        perm="[0, 2, 1]", inputs="float[3, 5, s] a, float[3, 5, s] b, float[6, s, 5] x")),
    Case(written_parts, "what is written first is read", graph(more="z = Neg(once)"), why="is also used"),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """Each site is proved."""
    check_fires(case)


@pytest.mark.parametrize("case", SPARES, ids=str)
def test_spares(case):
    """Each miss says why."""
    check_spares(case)
