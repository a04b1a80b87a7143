"""A Squeeze or an Unsqueeze after a reduction: what becomes one node, and what does not."""

import pytest
from surgeon.patterns.cleanup.reduced_axes import no_op_reduction, reduced_axes

from surgeon.testing import Case, check_fires, check_spares, parse

AXES = "int64[1] last = {-1}, int64[1] two = {2}, int64[1] one = {1}, int64[2] both = {-1, 0}, int64[2] ends = {0, 2}"


def graph(body, opset=18, shape="b, 4, t", made="float y"):
    header = f'<ir_version: 9, opset_import: ["" : {opset}, "my" : 1]> g'
    return parse(f"{header} (float[{shape}] x) => ({made}) <{AXES}> {{ {body} }}")


UNKNOWN = "u = my.unknown(x) a = ReduceSum<keepdims = 0>(u, two) y = Unsqueeze(a, last)"
# fmt: off
FIRES = [
    Case(reduced_axes, "axes as inputs", graph("a = ReduceMean<keepdims = 0>(x, two) y = Unsqueeze(a, two)")),
    Case(reduced_axes, "axes from either end", graph("a = ReduceSum<keepdims = 0>(x, last) y = Unsqueeze(a, two)")),
    Case(reduced_axes, "two axes in another order", graph(
        "a = ReduceL2<keepdims = 0>(x, both) y = Unsqueeze(a, ends)")),
    Case(reduced_axes, "axes as attributes", graph(
        "a = ReduceMax<axes = [-1], keepdims = 0>(x) y = Unsqueeze<axes = [2]>(a)", opset=11)),
    Case(reduced_axes, "one of each", graph("a = ReduceProd<axes = [1], keepdims = 0>(x) y = Unsqueeze(a, one)", 13)),
    Case(reduced_axes, "kept and dropped", graph("a = ReduceMin(x, one) y = Squeeze(a, one)")),
    Case(reduced_axes, "a flag without effect", graph(
        "a = ReduceLogSumExp<keepdims = 0, noop_with_empty_axes = 1>(x, one) y = Unsqueeze(a, one)")),
    Case(reduced_axes, "axes as written, of an unknown rank", check=False, model=graph(UNKNOWN.replace("last", "two"))),
    Case(reduced_axes, "the largest", graph(
        "a = ArgMax<axis = 1, keepdims = 0>(x) y = Unsqueeze(a, one)", made="int64 y")),
    Case(reduced_axes, "the last of the smallest", graph(
        "a = ArgMin<axis = -1, select_last_index = 1>(x) y = Squeeze(a, two)", made="int64 y")),
    Case(no_op_reduction, "an axis of one", graph("a = ReduceMean(x, one) y = Exp(a)", shape="b, 1, t")),
    Case(no_op_reduction, "the first and the last axis", graph("a = ReduceMax(x, ends) y = Exp(a)", shape="1, n, 1")),
    Case(no_op_reduction, "axes as attributes", graph(
        "a = ReduceMin<axes = [-1]>(x) y = Exp(a)", opset=11, shape="n, 1")),
    Case(no_op_reduction, "a product of floats", graph("a = ReduceProd(x, one) y = Exp(a)", shape="b, 1, t")),
    Case(no_op_reduction, "no axis", graph("a = ReduceSum<noop_with_empty_axes = 1>(x) y = Exp(a)", opset=13)),
]
NEGATIVES = [
    Case(no_op_reduction, "one axis of two", graph("a = ReduceSum(x, ends) y = Exp(a)", shape="1, 4, t"),
         why="another size than 1"),
    Case(no_op_reduction, "an axis of any size", graph("a = ReduceMin(x, one) y = Exp(a)", shape="b, n, t"),
         why="another size than 1"),
    Case(no_op_reduction, "all axes", why="along all axes", model=graph(
        "a = ReduceSum(x) y = Exp(a)", opset=13, shape="1, t")),
    Case(no_op_reduction, "the axis goes", why="keepdims", model=graph(
        "a = ReduceSum<keepdims = 0>(x, one) y = Exp(a)", shape="b, 1, t")),
    Case(no_op_reduction, "a product of integers", why="in floating point", model=graph(
        "i = Cast<to = 7>(x) a = ReduceProd(i, one) y = Neg(a)", shape="b, 1, t", made="int64 y")),
    Case(no_op_reduction, "a norm of one number", why="", model=graph(
        "a = ReduceL2(x, one) y = Exp(a)", shape="b, 1, t")),
    Case(reduced_axes, "another axis", graph("a = ReduceSum<keepdims = 0>(x, two) y = Unsqueeze(a, one)"),
         why="it reduces along [2], but the other node has the axes [1]"),
    Case(reduced_axes, "one of two axes", graph("a = ReduceSum(x, ends) y = Squeeze(a, two)"), why="it reduces along"),
    Case(reduced_axes, "an axis more", graph("a = ReduceSum(x, two) y = Squeeze(a, ends)", shape="1, 4, t"),
         why="it reduces along"),
    Case(reduced_axes, "an unknown rank", graph(UNKNOWN), why="rank of the input is unknown"),
    Case(reduced_axes, "axes that are kept already", why="keepdims", model=graph(
        "a = ReduceSum<keepdims = 1>(x, two) y = Unsqueeze(a, two)")),
    Case(reduced_axes, "a result that others read", why="also read", model=graph(
        "a = ReduceSum<keepdims = 0>(x, two) b = Unsqueeze(a, two) y = Add(b, a)")),
    Case(reduced_axes, "another axis of indices", why="it reduces along", model=graph(
        "a = ArgMax<keepdims = 0>(x) y = Unsqueeze(a, two)", made="int64 y")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)
