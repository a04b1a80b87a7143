"""Conditions with one node too many: what fires and what does not."""

import pytest
from surgeon.patterns.activations.leaky_relu import leaky_relu
from surgeon.patterns.cleanup.conditions import greater_or_equal, negated_where

from surgeon.testing import Case, check_fires, check_spares
from tests.patterns.tensorrt import graph

TWO = "(float[n, 4] x, float[n, 4] z, bool[n, 1] c) => (float[n, 4] y)"
ORDER = "(float[n, 4] x, float[1, 4] z) => (bool[n, 4] y)"
WHOLE = "(int64[n, 4] x, int64[1, 4] z) => (bool[n, 4] y)"
ZERO = "float zero = {0}, float slope = {0.1}"

# fmt: off
FIRES = [
    Case(negated_where, "once", graph("v = Not(c) y = Where(v, x, z)", TWO)),
    Case(negated_where, "the Not is read elsewhere", sites=2,
         model=graph("v = Not(c) a = Where(v, x, z) b = Where(v, z, x) m = Cast<to = 1>(v) s = Sub(a, b) y = Add(s, m)",
                     TWO)),
    Case(negated_where, "negated twice", sites=2,
         model=graph("v = Not(c) w = Not(v) a = Where(w, x, z) b = Where(v, x, z) y = Sub(a, b)", TWO)),
    Case([negated_where, leaky_relu], "an activation with a negated comparison",
         model=graph("c = Less(x, zero) v = Not(c) m = Mul(x, slope) y = Where(v, x, m)",
                     "(float[n, 4] x) => (float[n, 4] y)", ZERO)),
    Case(greater_or_equal, "the function body", graph("a = Greater(x, z) b = Equal(x, z) y = Or(a, b)", ORDER)),
    Case(greater_or_equal, "operands in another order",
         model=graph("a = Greater(x, z) b = Equal(z, x) y = Or(b, a)", ORDER, opset=12)),
    Case(greater_or_equal, "less or equal", graph("a = Less(x, z) b = Equal(x, z) y = Or(a, b)", ORDER)),
    Case(greater_or_equal, "whole numbers", graph("a = Less(z, x) b = Equal(x, z) y = Or(a, b)", WHOLE)),
]
NEGATIVES = [
    Case(negated_where, "a condition that is not negated", graph("y = Where(c, x, z)", TWO), why=""),
    Case(negated_where, "a branch is negated",
         model=graph("v = Not(c) y = Where(c, v, c)", "(bool[n, 4] c) => (bool[n, 4] y)"), why=""),
    Case(greater_or_equal, "and", graph("a = Greater(x, z) b = Equal(x, z) y = And(a, b)", ORDER), why=""),
    Case(greater_or_equal, "unequal",
         model=graph("a = Greater(x, z) e = Equal(x, z) b = Not(e) y = Or(a, b)", ORDER), why=""),
    Case(greater_or_equal, "equal to another tensor", why="",
         model=graph("a = Greater(x, z) b = Equal(x, v) y = Or(a, b)",
                     "(float[n, 4] x, float[1, 4] z, float[1, 4] v) => (bool[n, 4] y)")),
    Case(greater_or_equal, "before GreaterOrEqual was an op", why="opset",
         model=graph("a = Greater(x, z) b = Equal(x, z) y = Or(a, b)", ORDER, opset=11)),
    Case(greater_or_equal, "the equality is an output", why="",
         model=graph("a = Greater(x, z) b = Equal(x, z) y = Or(a, b)",
                     "(float[n, 4] x, float[1, 4] z) => (bool[n, 4] y, bool[n, 4] b)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
