"""The rule for normalisation to length one: what fires and what does not."""

import pytest
from surgeon.patterns.norms.l2_norm import l2_norm

from surgeon.testing import Case, check_fires, check_spares, parse

HEAD = "(float[n, 3, 4] x) => (float[n, 3, 4] y)"
CONSTANTS = "int64[1] a = {-1}, float two = {2}, float half = {0.5}, float floor = {1e-12}"


def graph(body, head=HEAD, constants=CONSTANTS, opset=17):
    return parse(f'<ir_version: 8, opset_import: ["" : {opset}]> agraph {head} <{constants}> {{ {body} }}')


LENGTH = "l = ReduceL2<axes = [-1]>(x) "

FIRES = [
    Case(
        l2_norm,
        "torch's normalize: floored, spread to the shape of x",
        graph(LENGTH + "c = Clip(l, floor) s = Shape(x) e = Expand(c, s) y = Div(x, e)"),
    ),
    Case(
        l2_norm, "the floor as an attribute of Clip", graph(LENGTH + "c = Clip<min = 1e-12>(l) y = Div(x, c)", opset=10)
    ),
    Case(l2_norm, "the floor as a maximum", graph(LENGTH + "c = Max(floor, l) y = Div(x, c)")),
    Case(l2_norm, "no floor", graph(LENGTH + "y = Div(x, l)")),
    Case(l2_norm, "axes as an input", graph("l = ReduceL2(x, a) y = Div(x, l)", opset=18)),
    Case(l2_norm, "over the channels", graph("l = ReduceL2<axes = [1]>(x) y = Div(x, l)")),
    Case(
        l2_norm,
        "CLIP: a power of the sum of squares",
        graph("p = Pow(x, two) t = ReduceSum(p, a) l = Pow(t, half) y = Div(x, l)"),
    ),
    Case(
        l2_norm,
        "times the reciprocal of the root",
        graph("p = Mul(x, x) t = ReduceSum(p, a) q = Sqrt(t) r = Reciprocal(q) y = Mul(x, r)"),
    ),
    Case(l2_norm, "back to primitives", target="decomposed", model=graph("y = LpNormalization<axis = -1, p = 2>(x)")),
]

NEGATIVES = [
    Case(
        l2_norm,
        "the length of all, as no axes are named",
        why="has no axes",
        model=graph("l = ReduceL2(x) y = Div(x, l)"),
    ),
    Case(
        l2_norm,
        "a floor that is not small",
        why="the floor is 0.001",
        model=graph(LENGTH + "c = Clip(l, floor) y = Div(x, c)", constants="float floor = {1e-3}"),
    ),
    Case(
        l2_norm,
        "the length of something else",
        why="",
        model=graph("z = Neg(x) l = ReduceL2<axes = [-1]>(z) y = Div(x, l)"),
    ),
    Case(
        l2_norm,
        "an epsilon inside the root",
        why="",
        model=graph("p = Mul(x, x) t = ReduceSum(p, a) u = Add(t, floor) q = Sqrt(u) y = Div(x, q)"),
    ),
    Case(
        l2_norm,
        "the mean of the squares",
        why="",
        model=graph("p = Mul(x, x) t = ReduceMean<axes = [-1]>(p) q = Sqrt(t) y = Div(x, q)"),
    ),
    Case(
        l2_norm,
        "over two axes",
        why="supports only one axis",
        model=graph("l = ReduceL2<axes = [1, 2]>(x) y = Div(x, l)"),
    ),
    Case(l2_norm, "the sum of magnitudes", why="", model=graph("l = ReduceL1<axes = [-1]>(x) y = Div(x, l)")),
    Case(
        l2_norm,
        "spread to a larger shape than that of x",
        why="expanded to the shape of the input",
        model=graph(
            "l = ReduceL2<axes = [-1]>(x) c = Clip(l, floor) e = Expand(c, s) y = Div(x, e)",
            head="(float[1, 3, 4] x) => (float[5, 3, 4] y)",
            constants=f"{CONSTANTS}, int64[3] s = {{5, 3, 4}}",
        ),
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The operation is found in this spelling, and the result agrees for rows that are not empty."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """Something near the operation stays as it is, and the report says why."""
    check_spares(case)
