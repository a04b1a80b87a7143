"""Shapes that satisfy the size constraints of a pattern, and their use in the proof of a rule."""

import pytest

from surgeon import Graph, Tensor
from surgeon.authoring.rule_proof.pattern_arguments import RANKS, SIZES, argument_sets
from surgeon.authoring.rule_proof.prover import prove_rule
from surgeon.authoring.rule_proof.shape_solver import fit
from surgeon.authoring.rule_proof.variants import PatternVariant
from surgeon.rules.tracing.tracer import trace
from tests.models import make


def attended(g: Graph, q: Tensor, kt: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return g.matmul(g.softmax(g.add(g.matmul(q, kt), mask), axis=-1), v)


def turned(
    g: Graph, x: Tensor, table: Tensor, low: list[int], high: list[int], middle: list[int], axis: list[int]
) -> Tensor:
    first, second = g.slice(x, low, middle, axis), g.slice(x, middle, high, axis)
    return g.mul(g.concat(g.neg(second), first, axis=-1), g.concat(table, table, axis=-1))


def split(g: Graph, x: Tensor, y: Tensor, parts: list[int]) -> Tensor:
    first, second = g.split(x, parts, axis=1, outputs=2)
    return g.matmul(g.add(first, y), second)


def found(function, *ranks):
    """What fits a pattern whose tensors have these ranks."""
    (pattern,) = trace(function)
    names = [name for name in function.__code__.co_varnames if function.__annotations__.get(name) is Tensor]
    return fit(pattern, PatternVariant(), dict(zip(names, ranks, strict=True)), SIZES)


def test_sizes_are_equal_where_an_op_wants_it_and_differ_elsewhere():
    shapes = {"q": tuple("abcd"), "kt": tuple("abde"), "v": tuple("abef"), "mask": tuple("abce")}
    assert found(attended, 4, 4, 4, 4).shapes == shapes
    assert found(attended, 3, 3, 3, 2).shapes == {
        "q": tuple("abc"),
        "kt": tuple("acd"),
        "v": tuple("ade"),
        "mask": ("b", "d"),
    }


def test_what_is_put_together_is_as_long_as_its_parts_and_cut_between_them():
    """The halves of an axis: the slices of one tensor follow on one another."""
    fitting = found(turned, 3, 2)
    assert fitting.shapes == {"x": ("a", "b", 6), "table": ("b", 3)}
    assert fitting.values == {"low": [0], "middle": [3], "high": [6], "axis": [-1]}


def test_parts_of_a_split_are_as_long_as_each_other():
    fitting = found(split, 2, 2)
    assert fitting.values == {"parts": [3, 3]}
    assert fitting.shapes["x"] == (3, 6)
    assert fitting.shapes["y"] == (3, 3)


@pytest.mark.parametrize("function", [lambda g, x: g.exp(x), lambda g, x, shape: g.reshape(x, shape)])
def test_nothing_is_reported_of_what_wants_nothing(function):
    (pattern,) = trace(function)
    names = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    assert fit(pattern, PatternVariant(), dict.fromkeys(names, 2), SIZES) is None


def test_a_pattern_of_products_is_generated_at_every_rank():
    (pattern,) = trace(attended)
    ranks = {arguments.rank for arguments in argument_sets(pattern, PatternVariant(), 20, RANKS)}
    assert {2, 3, 4} <= ranks


def test_a_rule_of_products_proves_itself_and_a_wrong_one_does_not():
    """Right: q·kᵀ/2 as q·(kᵀ/2).  Wrong: without the mask."""

    def halved(g: Graph, q: Tensor, kt: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return g.matmul(g.softmax(g.add(g.mul(g.matmul(q, kt), 0.5), mask), axis=-1), v)

    def right(g: Graph, q: Tensor, kt: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        scores = g.add(g.matmul(q, g.div(kt, 2.0)), mask)
        return g.matmul(g.softmax(scores, axis=-1), g.identity(v))

    def wrong(g: Graph, q: Tensor, kt: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return g.matmul(g.softmax(g.matmul(q, g.div(kt, 2.0)), axis=-1), v)

    settings = {"target": "onnx", "name": "products", "differs": {"extreme": "they overflow"}}
    outcomes = [
        prove_rule(make(halved, replacement, **settings), targets=["onnx"], quick=True).outcome.value
        for replacement in (right, wrong)
    ]
    assert outcomes == ["proved", "failed"]
