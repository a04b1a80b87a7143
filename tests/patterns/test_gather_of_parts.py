"""Gathers of the parts of split indices: what becomes one Gather, and what does not."""

import pytest
from surgeon.patterns.cleanup.gather_of_parts import gather_of_parts

from surgeon.testing import Case, check_fires, check_spares, parse


def graph(body, x="float[9, n]", i="int64[6]", y="float[6, n]", opset=18):
    header = f'<ir_version: 9, opset_import: ["" : {opset}]> g ({x} x, {i} i) => ({y} y) <int64[3] sizes = {{1, 2, 3}}>'
    return parse(f"{header} {{ {body} }}")


THREE = "a, b, c = Split(i, sizes) d = Gather(x, a) e = Gather(x, b) f = Gather(x, c)"
TWO = "a, b = Split<axis = 1, num_outputs = 2>(i) d = Gather<axis = 1>(x, a) e = Gather<axis = 1>(x, b)"
ELEVEN = "a, b = Split<axis = 0>(i) d = Gather<axis = -1>(x, a) e = Gather<axis = -1>(x, b)"
# fmt: off
FIRES = [
    Case(gather_of_parts, "three parts", graph(f"{THREE} y = Concat<axis = 0>(d, e, f)")),
    Case(gather_of_parts, "a second axis of indices", graph(
        f"{TWO} y = Concat<axis = -1>(d, e)", "float[n, 9]", "int64[k, 6]", "float[n, k, 6]")),
    Case(gather_of_parts, "equal parts without sizes", graph(
        f"{ELEVEN} y = Concat<axis = 1>(d, e)", "float[n, 9]", "int32[6, k]", "float[n, 6, k]", 11)),
    Case(gather_of_parts, "counted from the end", graph(f"{THREE} y = Concat<axis = -2>(d, e, f)")),
]
NEGATIVES = [
    Case(gather_of_parts, "another order", graph(f"{THREE} y = Concat<axis = 0>(e, d, f)"), why=""),
    Case(gather_of_parts, "a part is left out", graph(f"{THREE} y = Concat<axis = 0>(d, e)", y="float[3, n]"), why=""),
    Case(gather_of_parts, "another axis", why="along another axis", model=graph(
        "a, b = Split<num_outputs = 2>(i) d = Gather(x, a) e = Gather(x, b) y = Concat<axis = 1>(d, e)",
        y="float[3, m]")),
    Case(gather_of_parts, "two tensors", why="", model=graph(
        "z = Neg(x) a, b = Split<num_outputs = 2>(i) d = Gather(x, a) e = Gather(z, b) y = Concat<axis = 0>(d, e)")),
    Case(gather_of_parts, "a part that others read", why="also read", model=graph(
        "a, b = Split<num_outputs = 2>(i) d = Gather(x, a) e = Gather(x, b) s = Concat<axis = 0>(d, e) z = Neg(d) "
        "y = Concat<axis = 0>(s, z)", y="float[m, n]")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
