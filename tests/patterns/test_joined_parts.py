"""Slices of joined tensors: what is taken from these, what is spared and why."""

import pytest
from surgeon.patterns.joined_parts import joined_parts

from surgeon.testing import Case, check_fires, check_spares, parse


def graph(start, end, axis=-1, inputs="float[n, 3] a, float[n, 3] b, float[n, 4] c", joined="a, b, c"):
    header = '<ir_version: 10, opset_import: ["" : 17]> g'
    constants = f"<int64[1] start = {{{start}}}, int64[1] end = {{{end}}}, int64[1] axis = {{{axis}}}>"
    body = f"j = Concat<axis = 1>({joined}) p = Slice(j, start, end, axis) y = Relu(p) z = Neg(j)"
    return parse(f"{header} ({inputs}) => (float[k, l] y, float[k, m] z) {constants} {{ {body} }}")


FIRES = [
    Case(joined_parts, "one of three", graph(3, 6)),
    Case(joined_parts, "the last, to the end", graph(6, 2**63 - 1)),
    Case(joined_parts, "two of three", graph(0, 6, 1)),
    Case(joined_parts, "free sizes", graph(3, 2**63 - 1, inputs="float[n, 3] a, float[n, w] b", joined="a, b")),
]
SPARES = [
    Case(joined_parts, "a part of one", graph(3, 5), why="does not end where"),
    Case(joined_parts, "from the middle on", graph(4, 6), why="does not begin where"),
    Case(joined_parts, "along another axis", graph(0, 3, 0), why="along another axis"),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """Each site is proved."""
    check_fires(case)


@pytest.mark.parametrize("case", SPARES, ids=str)
def test_spares(case):
    """Each miss says why."""
    check_spares(case)
