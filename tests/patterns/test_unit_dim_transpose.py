"""Transposes that move only axes of one element: what becomes Squeeze or Unsqueeze, what does not match and why."""

import pytest
from surgeon.patterns.layout.unit_dim_transpose import unit_dim_transpose

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.models import ops

TAKEN = "t = Transpose<perm = [0, 2, 1, 3]>(x) y = Reshape(t, three)"
ADDED = "t = Reshape(x, four) y = Transpose<perm = [0, 2, 1, 3]>(t)"
FIXED = "int64[3] three = {2, 5, 8}, int64[4] four = {2, 5, 1, 8}"
COPIED = "int64[3] three = {0, 0, 8}, int64[4] four = {0, 0, 1, 8}"


def graph(body, x="b, 1, s, 8", y="b, s, 8", constants=COPIED):
    header = '<ir_version: 9, opset_import: ["" : 17]> g'
    return parse(f"{header} (float[{x}] x) => (float[{y}] y) <{constants}> {{ {body} }}")


# fmt: off
FIRES = [
    Case(unit_dim_transpose, "one head that is joined", graph(TAKEN)),
    Case(unit_dim_transpose, "one head that is split", graph(ADDED, "b, s, 8", "b, 1, s, 8")),
    Case(unit_dim_transpose, "fixed sizes", graph(TAKEN, "2, 1, 5, 8", "2, 5, 8", FIXED)),
    Case(unit_dim_transpose, "an axis of one that is moved twice",
         graph(TAKEN, "b, 1, s, 8", "b, s, 8, 1", "int64[4] three = {0, 0, 8, 1}")),
    Case(unit_dim_transpose, "an axis of one that is moved back",
         graph(TAKEN, "b, 1, s, 8", "b, 1, s, 8", "int64[4] three = {0, 1, -1, 8}")),
    Case(unit_dim_transpose, "other axes that are moved too",
         graph("t = Transpose<perm = [3, 0, 1, 2]>(x) y = Reshape(t, four)", "1, 6, 1, 5", "1, 1, 5, 6",
               "int64[4] four = {1, 1, 5, 6}")),
    Case(unit_dim_transpose, "other axes that are moved later",
         graph("t = Reshape(x, four) y = Transpose<perm = [3, 0, 1, 2]>(t)", "6, 1, 1, 5", "5, 1, 6, 1",
               "int64[4] four = {1, 6, 1, 5}")),
    Case(unit_dim_transpose, "one head of a batch of one", graph(TAKEN, "1, 1, s, 8", "1, s, 8")),
]
NEGATIVES = [
    Case(unit_dim_transpose, "several heads", graph(TAKEN, "b, 2, s, 8", "b, s, 16", "int64[3] three = {0, 0, 16}"),
         why="only axes of size one"),
    Case(unit_dim_transpose, "heads that are moved before they are one axis", why="order of axes",
         model=graph("t = Transpose<perm = [0, 2, 1, 3]>(x) y = Reshape(t, three)", "1, 2, s, 8", "s, 2, 8",
                     "int64[3] three = {-1, 2, 8}")),
    Case(unit_dim_transpose, "rows that may be more than one", why="only axes of size one",
         model=graph(TAKEN, "b, 1, 6, 8", "b, 12, 4", "int64[3] three = {0, 12, 4}")),
    Case(unit_dim_transpose, "sizes that the Reshape splits", why="only axes of size one",
         model=graph(TAKEN, "2, 1, 6, 8", "2, 3, 2, 8", "int64[4] three = {2, 3, 2, 8}")),
    Case(unit_dim_transpose, "two axes in another order", why="only axes of size one",
         model=graph("t = Transpose<perm = [0, 2, 1, 3]>(x) y = Reshape(t, four)", "2, 1, 6, 8", "2, 8, 1, 6",
                     "int64[4] four = {2, 8, 1, 6}")),
    Case(unit_dim_transpose, "a transpose alone", graph("y = Transpose<perm = [0, 2, 1, 3]>(x)", y="b, s, 1, 8"),
         why="the model has no Reshape"),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_it_waits_for_what_takes_transposes_in():
    """Two transposes of which the one undoes the other go first, and nothing is left."""
    body = "r = Reshape(x, four) t = Transpose<perm = [0, 2, 1, 3]>(r) u = Transpose<perm = [0, 2, 1, 3]>(t) "
    made, _ = surgeon.rewrite(graph(f"{body} y = Reshape(u, three)", "b, s, 8", "b, s, 8"), "cleanup")
    assert ops(made.graph) == ["Identity"]
