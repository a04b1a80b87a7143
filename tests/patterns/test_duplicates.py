"""Nodes that compute what others have computed: which go, and which only look alike."""

import pytest
from surgeon.patterns.cleanup.duplicates import duplicate_nodes

import surgeon
from surgeon.testing import Case, check_fires, check_spares, parse
from tests.models import ops

HEAD = "(float[n, 4] x) => (float[n, 4] y)"
FUNCTION = """<ir_version: 9, opset_import: ["" : 17, "my" : 1]> agraph (float[n] x) => (float[n] y)
    { a = my.Twice(x) b = my.Twice(x) y = Add(a, b) }
    <domain: "my", opset_import: ["" : 17]> Twice (v) => (w) { w = Add(v, v) }"""
SHADOW = FUNCTION.replace("my.Twice", "Relu").replace('domain: "my"', 'domain: ""').replace("Twice", "Relu")


def model(body, constants="", head=HEAD):
    """One input x and one output y."""
    return parse(f"{head} <{constants}> {{ {body} }}")


FIRES = [
    Case(duplicate_nodes, "an absent input at the end", model(
        "a = Clip(x, k,,) b = Clip(x, k) y = Add(a, b)", "float k = {0}")),
    Case(duplicate_nodes, "absent inputs only, next to others", sites=2, model=model(
        "a = Clip(x, k) b = Clip(x, k) c = Clip(x,,) d = Clip(x) e = Add(a, b) f = Add(c, d) y = Add(e, f)",
        "float k = {0}")),
    Case(duplicate_nodes, "a Sum of two and an Add", model(
        "a = Sum(x, k) b = Add(x, k) y = Sub(a, b)", "float k = {1}")),
    Case(duplicate_nodes, "two of a kind", model("a = Relu(x) b = Relu(x) y = Add(a, b)")),
    Case(
        duplicate_nodes,
        "a whole branch",
        model("a = Relu(x) c = Exp(a) b = Relu(x) d = Exp(b) y = Add(c, d)"),
        sites=2,
    ),
    Case(
        duplicate_nodes,
        "equal constants of other names",
        model("a = Mul(x, k) b = Mul(x, l) y = Add(a, b)", "float k = {3}, float l = {3}"),
    ),
    Case(
        duplicate_nodes,
        "a Constant node and an initializer",
        model("l = Constant<value = float {3}>() a = Mul(x, k) b = Mul(x, l) y = Add(a, b)", "float k = {3}"),
    ),
    Case(
        duplicate_nodes,
        "equal attributes in another order",
        model(
            "a = ReduceSum<keepdims = 1, noop_with_empty_axes = 0>(x) b = ReduceSum<noop_with_empty_axes = 0, "
            "keepdims = 1>(x) c = Add(a, b) y = Mul(x, c)"
        ),
    ),
    Case(
        duplicate_nodes,
        "two outputs",
        model(
            "a, b = Split<axis = 1>(x) c, d = Split<axis = 1>(x) e = Add(a, d) f = Add(b, c) y = Concat<axis = 1>(e, f)"
        ),
    ),
    Case(
        duplicate_nodes,
        "an output of the graph stays as a copy",
        model("a = Exp(x) z = Exp(x) y = Relu(a)", head="(float[n, 4] x) => (float[n, 4] y, float[n, 4] z)"),
    ),
    Case(
        duplicate_nodes,
        "sizes",
        model(
            "s = Shape(x) t = Shape(x) a = Gather(s, i) b = Gather(t, i) c = Add(a, b) d = Cast<to = 1>(c) "
            "y = Add(x, d)",
            "int64 i = {0}",
        ),
        sites=2,
    ),
    Case(duplicate_nodes, "for any target", model("a = Relu(x) b = Relu(x) y = Add(a, b)"), target="onnx"),
]
NEGATIVES = [
    Case(duplicate_nodes, "what two readers are given of integers, by a node each", why="nothing is repeated",
         model=model("q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z) b = DequantizeLinear(q, s, z) "
                     "p = QuantizeLinear(x, s, z) c = DequantizeLinear(p, s, z) d = Add(a, b) y = Add(d, c)",
                     "float s = {0.1}, uint8 z = {0}")),
    Case(duplicate_nodes, "other inputs", model("a = Relu(x) b = Relu(a) y = Add(a, b)"), why="nothing is repeated"),
    Case(
        duplicate_nodes,
        "other attributes",
        model("a = Elu<alpha = 0.5>(x) b = Elu<alpha = 0.6>(x) y = Add(a, b)"),
        why="nothing is repeated",
    ),
    Case(
        duplicate_nodes,
        "other constants",
        model("a = Mul(x, k) b = Mul(x, l) y = Add(a, b)", "float k = {3}, float l = {4}"),
        why="nothing is repeated",
    ),
    Case(
        duplicate_nodes,
        "constants of another type",
        model("a = Cast<to = 1>(k) b = Cast<to = 1>(l) c = Add(a, b) y = Add(x, c)", "int32 k = {3}, int64 l = {3}"),
        why="nothing is repeated",
    ),
    Case(
        duplicate_nodes,
        "random numbers",
        model("a = RandomNormalLike(x) b = RandomNormalLike(x) y = Add(a, b)"),
        why="nothing is repeated",
    ),
    Case(
        duplicate_nodes,
        "dropout",
        model("a = Dropout(x, k, t) b = Dropout(x, k, t) y = Add(a, b)", "float k = {0.5}, bool t = {1}"),
        why="nothing is repeated",
    ),
    Case(
        duplicate_nodes, "a custom op", model("a = my.Draw(x) b = my.Draw(x) y = Add(a, b)"), why="nothing is repeated"
    ),
    Case(duplicate_nodes, "a local function", parse(FUNCTION), why="nothing is repeated"),
    Case(duplicate_nodes, "a local function in the place of an op", parse(SHADOW), why="nothing is repeated"),
    Case(
        duplicate_nodes,
        "bodies",
        parse("""(float[n] x, bool c) => (float[n] y) { a = If<then_branch = g () => (float[n] p) { p = Relu(x) },
            else_branch = h () => (float[n] q) { q = Exp(x) }>(c) b = If<then_branch = g () => (float[n] p2) {
            p2 = Relu(x) }, else_branch = h () => (float[n] q2) { q2 = Exp(x) }>(c) y = Add(a, b) }"""),
        why="nothing is repeated",
    ),
    Case(
        duplicate_nodes,
        "an initializer that a caller may give",
        parse(
            "(float[n, 4] x, float k) => (float[n, 4] y) <float k = {3}, float l = {3}> "
            "{ a = Mul(x, k) b = Mul(x, l) y = Add(a, b) }"
        ),
        why="nothing is repeated",
    ),
    Case(
        duplicate_nodes,
        "none can be decomposed",
        model("a = Relu(x) b = Relu(x) y = Add(a, b)"),
        target="decomposed",
        why="writes no op",
    ),
]


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_a_body_reads_what_stays():
    """A body that reads a node that goes reads the one that stays."""
    text = """(float[n] x, bool c) => (float[n] y) { a = Relu(x) b = Relu(x) d = Add(a, b)
        y = If<then_branch = g () => (float[n] p) { p = Exp(b) },
            else_branch = h () => (float[n] q) { q = Neg(d) }>(c) }"""
    made, report = surgeon.rewrite(parse(text), duplicate_nodes, check="both")
    assert report.outcome == "proved"
    assert ops(made.graph)[:3] == ["Relu", "Add", "If"]


def test_inside_a_body():
    """A body's own nodes are compared among themselves."""
    text = """(float[n] x, bool c) => (float[n] y) { y = If<then_branch = g () => (float[n] p) {
        a = Relu(x) b = Relu(x) p = Add(a, b) }, else_branch = h () => (float[n] q) { q = Neg(x) }>(c) }"""
    made, report = surgeon.rewrite(parse(text), duplicate_nodes, check="both")
    assert report.outcome == "proved"
    assert len(ops(made.graph)) == 4
