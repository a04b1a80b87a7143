"""What is assigned to all of a tensor: what stands for it, and what leaves some of it or is added."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.cleanup.no_op_scatter import no_op_scatter

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

SIZES = "int64[2] sizes = {2, 3}, int64[1] last = {-1}"
ALONG = "int64[2, 1] i = {0, 1}, int64[3] j = {0, 1, 2}"
SPREAD = "ei = Expand(i, sizes) ej = Expand(j, sizes) ui = Unsqueeze(ei, last) uj = Unsqueeze(ej, last)"
JOINED = "at = Concat<axis = -1>(ui, uj)"
PUT = "r = Relu(u) a = ScatterND(x, at, r) y = Neg(a)"


def model(body, at=None, shape="2, 3", of_updates="", opset=17, constants=""):
    """x, and updates u that are put into it.  at: the indices, where they are stored."""
    header = f'<ir_version: 9, opset_import: ["" : {opset}]> agraph '
    ends = f"(float[{shape}] x, float[{of_updates or shape}] u) => (float[{shape}] y)"
    made = parse(f"{header}{ends} <{constants}> {{ {body} }}")
    if at is not None:
        made.graph.initializer.append(numpy_helper.from_array(np.array(at, np.int64), "at"))
    return made


def grid(*sizes):
    """The indices of all places, in order."""
    return np.moveaxis(np.indices(sizes), 0, -1)


def joined(spread=SPREAD, along=ALONG, put=PUT, opset=17):
    """Indices that are joined of one along each axis."""
    return model(f"{spread} {JOINED} {put}", constants=f"{SIZES}, {along}", opset=opset)


def ranged(axis="zero", first="zero", step="one", size="d = Identity(size)", shape="n, 3"):
    """Indices that count the rows of x."""
    body = f"s = Shape(x) size = Gather(s, {axis}) {size} r = Range({first}, d, {step}) at = Unsqueeze(r, last)"
    constants = "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] last = {-1}"
    return model(f"{body} {PUT.replace('r = Relu(u)', 'q = Relu(u)').replace(', r)', ', q)')}", shape=shape,
                 constants=constants)


FIRES = [
    Case(no_op_scatter, "stored indices", model(PUT, grid(2, 3))),
    Case(no_op_scatter, "indices of rows", model(PUT, grid(2))),
    Case(no_op_scatter, "one axis", model(PUT, grid(4), "4")),
    Case(no_op_scatter, "many places", model(PUT, grid(1, 2, 40, 30), "1, 2, 40, 30")),
    Case(no_op_scatter, "joined of one along each axis, as TorchScript has it", joined()),
    Case(no_op_scatter, "joined of what is spread already", joined(
        "", "int64[2, 3, 1] ui = {0, 0, 0, 1, 1, 1}, int64[2, 3, 1] uj = {0, 1, 2, 0, 1, 2}")),
    Case(no_op_scatter, "a Range over the rows", ranged()),
    Case(no_op_scatter, "indices that others read", joined(put=f"{PUT.replace('y =', 'b =')} c = ScatterND(b, at, a) "
                                                           "y = Relu(c)"), sites=2),
]
NEGATIVES = [
    Case(no_op_scatter, "not in order", model(PUT, grid(2, 3)[::-1]), why="all positions in order"),
    Case(no_op_scatter, "axes swapped", joined(along="int64[2, 1] i = {1, 0}, int64[3] j = {0, 1, 2}"),
         why="all positions in order"),
    Case(no_op_scatter, "counted from the back", joined(along="int64[2, 1] i = {0, 1}, int64[3] j = {-3, -2, -1}"),
         why="all positions in order"),
    Case(no_op_scatter, "one row of two", model(PUT, [[1]], of_updates="1, 3"), why="the shape of the whole tensor"),
    Case(no_op_scatter, "sizes that are free", model(PUT, grid(2, 3), shape="n, 3"), why="the whole tensor"),
    Case(no_op_scatter, "added", model(PUT.replace("ScatterND", 'ScatterND<reduction = "add">'), grid(2, 3)),
         why="reduction"),
    Case(no_op_scatter, "indices that are given", parse(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[2, 3] x, float[2, 3] u, int64[2, 3, 2] at) => '
        f"(float[2, 3] y) {{ {PUT} }}"), why="must be constants or ranges"),
    Case(no_op_scatter, "a range from the second row on", ranged(first="one"), why="shape of the whole tensor"),
    Case(no_op_scatter, "a range over another axis", ranged(axis="one", shape="n, m, 4"), why="the whole tensor"),
    Case(no_op_scatter, "a range by twos", ranged(step="two", size="d = Mul(size, two)"), why="positions in order"),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """Each becomes what was assigned."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """Each stays as it is, for the reason that is said."""
    check_spares(case)


def test_it_is_part_of_the_cleanup():
    """An attention of which a bias is assigned is found by the group alone."""
    _, report = surgeon.rewrite(joined(), "cleanup", check="none")
    assert report.counts["no_op_scatter"] == 1
