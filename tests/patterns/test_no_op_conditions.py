"""Conditions that decide nothing: what goes, and what only looks as if it might."""

import numpy as np
import pytest
from onnx import numpy_helper
from surgeon.patterns.cleanup.constant_folding import constant_folding
from surgeon.patterns.cleanup.duplicates import duplicate_nodes
from surgeon.patterns.cleanup.no_op_conditions import no_op_and, no_op_or, no_op_where

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse

INPUTS = "bool[n, m] x, float[n, m] a, float[n, m] b, float[k] short"
CONSTANTS = (
    "<bool yes = {1}, bool no = {0}, bool[1, 1] wide = {1}, bool[1, 1, 1] wider = {1}, bool[2] both = {1, 0}, "
    "int64 nil = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] second = {1}>"
)
RANGE = "z = Shape(x) n = Gather(z, nil) r = Range(nil, n, one) i = Unsqueeze(r, second)"

EXPANDED = (
    "z = Shape(x) w = Shape(z) o = ConstantOfShape<value = int64[1] {1}>(w) minus = Constant<value_int = -1>() "
    "p = Mul(o, minus) c = Equal(z, p) t = Where(c, o, z)"
)


def graph(body, inputs=INPUTS, output="bool[n, m]"):
    return parse(f'<ir_version: 10, opset_import: ["" : 17]> g ({inputs}) => ({output} y) {CONSTANTS} {{ {body} }}')


# fmt: off
FIRES = [
    Case(no_op_and, "a constant", graph("t = And(yes, x) y = Not(t)")),
    Case(no_op_and, "on the other side, with axes", graph("t = And(x, wide) y = Not(t)")),
    Case(no_op_and, "a comparison that the range decides",
         graph(f"{RANGE} c = GreaterOrEqual(i, nil) t = And(c, x) y = Not(t)")),
    Case(no_op_and, "truths of a shape", graph(
        "z = Shape(x) c = ConstantOfShape<value = bool[1] {1}>(z) t = And(c, x) y = Not(t)")),
    Case(no_op_or, "a constant", graph("t = Or(x, no) y = Not(t)")),
    Case(no_op_or, "a comparison that never holds", graph(f"{RANGE} c = Less(i, nil) t = Or(c, x) y = Not(t)")),
    Case(no_op_where, "the first", graph("t = Where(yes, a, b) y = Neg(t)", output="float[n, m]")),
    Case(no_op_where, "the second", graph(f"{RANGE} c = Less(i, nil) t = Where(c, a, b) y = Neg(t)",
                                        output="float[n, m]")),
    Case(no_op_where, "by sizes that none can have, as torch's expand asks for them",
         graph(f"{EXPANDED} y = Expand(one_size, t)", INPUTS + ", float one_size", "float[n, m]")),
]
NEGATIVES = [
    Case(no_op_and, "an input that is always false", graph("t = And(no, x) y = Not(t)"), why="no And has"),
    Case(no_op_and, "one that is given", graph("t = And(x, d) y = Not(t)", f"{INPUTS}, bool[n, m] d"),
         why="no And has"),
    Case(no_op_and, "one that gives an axis", graph("t = And(x, wider) y = Not(t)", output="bool[1, n, m]"),
         why="a larger shape"),
    Case(no_op_and, "one that holds here and there", why="no And has",
         model=graph("t = And(x, both) y = Not(t)", INPUTS.replace("bool[n, m]", "bool[n, 2]"), "bool[n, 2]")),
    Case(no_op_and, "one that the range does not decide", why="no And has",
         model=graph(f"{RANGE} c = Greater(i, nil) t = And(c, x) y = Not(t)")),
    Case(no_op_or, "an input that is always true", graph("t = Or(yes, x) y = Not(t)"), why="no Or has"),
    Case(no_op_where, "a condition that is given", graph("t = Where(x, a, b) y = Neg(t)", output="float[n, m]"),
         why="no Where has"),
    Case(no_op_where, "a condition with more axes than is stated of the result", why="a larger shape",
         model=graph("t = Neg(a) y = Where(wider, t, b)", output="float[n, m]")),
    Case(no_op_where, "another that may have more rows than is stated of the result", why="a larger shape",
         model=graph("t = Neg(a) y = Where(yes, t, d)", f"{INPUTS}, float[k, 1] d", "float[n, m]")),
    Case(no_op_and, "a condition with more axes than is stated of the result", why="a larger shape",
         model=graph("t = Not(x) y = And(t, wider)")),
    Case(no_op_where, "by sizes that may be these", why="no Where has",
         model=graph(f"{EXPANDED.replace('-1', '4')} y = Expand(one_size, t)", INPUTS + ", float one_size",
                     "float[n, m]")),
    Case(no_op_where, "the other is larger", why="a larger shape",
         model=graph("t = Where(yes, short, b) y = Neg(t)", output="float[n, m]")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_what_was_computed_is_known_in_the_same_run():
    """Of a constant that only running its nodes tells; the nodes that read it are another's by then."""
    body = "z = Shape(a) e = Cos(zeros) f = Cos(zeros) g = Expand(f, z) c = Less(g, half) t = Where(c, a, b)"
    model = graph(f"{body} y = Add(t, e)", "float[n, 2000] a, float[n, 2000] b", "float[n, 2000]")
    for name, values in (("zeros", np.zeros(2000)), ("half", [0.5])):
        model.graph.initializer.append(numpy_helper.from_array(np.float32(values), name))
    rules = [constant_folding, duplicate_nodes, no_op_where]
    made, report = surgeon.rewrite(model, rules)
    assert report.count("no_op_where") == 1
    assert report.proved
    assert surgeon.rewrite(made, rules)[1].outcome == "unchanged"
