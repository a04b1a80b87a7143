"""Shape and Size of tensors inside a match: asked of others that have the same sizes, or a blocker."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from surgeon import Graph, Tensor, rewrite, rule
from surgeon.ir.verify_rewrite import new_violations
from surgeon.rules.matching import shape_uses
from tests.models import graph, make, opset, reasons, run


@rule(patterns=[lambda g, q, k: g.tanh(g.relu(g.matmul(q, k)))])
def product(g: Graph, q: Tensor, k: Tensor) -> Tensor:
    """tanh(relu(q·k)), in other words."""
    found = g.neg(g.matmul(g.neg(q), k))
    return g.tanh(g.mul(g.add(found, g.abs(found)), np.float32(0.5)))


CORE = "s = MatMul(q, k) r = Relu(s) y = Tanh(r)"
ENDS = "(float[b, n, 4] q, float[b, 4, m] k) => (float[b, n, m] y, {} z)"


def fed(**shapes):
    numbers = np.random.default_rng(0)
    return {name: numbers.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def same(before, after, feeds):
    one, two = (ReferenceEvaluator(model).run(None, feeds) for model in (before, after))
    return all(np.allclose(left, right, atol=1e-5) for left, right in zip(one, two, strict=True))


def check_sizes(model, after):
    """Sizes all of their own, some of 1, and two that are equal by accident."""
    for b, n, m in ((2, 3, 5), (1, 1, 7), (3, 4, 4), (5, 2, 1)):
        assert same(model, after, fed(q=(b, n, 4), k=(b, 4, m))), (b, n, m)


@pytest.mark.parametrize("version", [13, 17])
@pytest.mark.parametrize("inner", ["s", "r"])
@pytest.mark.parametrize(
    ("asking", "value"),
    [
        ("z = Shape({})", "int64[3]"),
        ("z = Size({})", "int64"),
        ("h = Shape({}) z = Gather(h, last)", "int64"),
        ("h = Shape({}) z = Gather(h, middle)", "int64"),
        ("h = Shape({}) f = Gather(h, last) g = Gather(h, middle) z = Sub(f, g)", "int64"),
        ("h = Shape({}) z = ConstantOfShape(h)", "float[b, n, m]"),
    ],
)
def test_sizes_are_asked_of_the_operands(version, inner, asking, value):
    constants = "int64 last = {-1}, int64 middle = {1}"
    model = graph(f"{CORE} {asking.format(inner)}", ENDS.format(value), constants, opset(version))
    after, report = run(model, product)
    assert report.proved
    assert report.counts == {"product": 1}
    assert len(report.sites) == 1
    assert not new_violations(model, after)
    assert {"s", "r"}.isdisjoint(name for node in after.graph.node for name in node.output)
    check_sizes(model, after)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (0, 2), (1, 9), (2, 1), (-9, -1)])
def test_a_shape_in_part(start, end):
    model = graph(f"{CORE} z = Shape<start = {start}, end = {end}>(r)", ENDS.format("int64[p]"), header=opset(17))
    after, report = run(model, product)
    assert report.proved
    assert len(report.sites) == 1
    check_sizes(model, after)


def test_a_mask_that_is_as_large_as_what_it_is_for():
    """The path from the sizes leads back into the match, through an input of its pattern."""
    masked = make(
        lambda g, q, k, mask: g.softmax(g.add(g.matmul(q, k), mask)),
        lambda g, q, k, mask: g.softmax(g.max(g.sum(g.abs(g.neg(mask)), g.matmul(q, k)))),
        name="masked",
    )
    body = "s = MatMul(q, k) h = Shape(s) c = ConstantOfShape(h) u = Trilu(c, one) a = Add(s, u) y = Softmax(a)"
    body = f"{body} z = Neg(u)"
    model = graph(body, ENDS.format("float[b, n, m]"), "int64 one = {1}", opset(17))
    after, report = run(model, masked)
    assert report.proved
    assert len(report.sites) == 1
    assert not new_violations(model, after)
    check_sizes(model, after)


def test_sizes_that_are_numbers_are_constants():
    ends = "(float[2, 3, 4] q, float[2, 4, 5] k) => (float[2, 3, 5] y, int64[3] z)"
    model = graph(f"{CORE} z = Shape(s)", ends)
    after, report = run(model, product)
    assert report.proved
    assert len(report.sites) == 1
    assert "Shape" not in [node.op_type for node in after.graph.node]
    assert same(model, after, fed(q=(2, 3, 4), k=(2, 4, 5)))


@pytest.mark.parametrize("ends", ["(float[n, 4] x, float[m, 4] w) => (float[k, 4] y, int64[2] z)"])
def test_a_size_that_nobody_else_has_for_every_size_blocks(ends):
    """A sum has as many rows as x unless x has one: what holds where both have as many holds by accident."""
    added = make(lambda g, x, w: g.tanh(g.add(x, w)), lambda g, x, w: g.sin(g.add(w, x)), name="added")
    model = graph("s = Add(x, w) y = Tanh(s) [asks] z = Shape(s)", ends)
    after, report = run(model, added, check="none")
    assert not report.sites
    assert after.SerializeToString() == model.SerializeToString()
    assert "is also read by 'asks'" in reasons(model, lambda g, x, w: g.tanh(g.add(x, w)))


def test_who_reads_the_values_still_blocks_beside_who_asks_for_sizes():
    model = graph(f"{CORE} h = Shape(s) e = Cast<to = 1>(h) t = ReduceSum(e) [reads] n = Neg(s) z = Add(n, t)",
                  ENDS.format("float[b, n, m]"))
    assert "is also read by 'reads'" in reasons(model, product.patterns[0])


def test_a_size_asked_in_a_body_blocks():
    text = (
        f"{CORE} z = If (flag) <then_branch = t () => (int64[3] tr) {{ [asks] tr = Shape(s) }}, "
        "else_branch = e () => (int64[3] er) { er = Shape(q) }>"
    )
    model = graph(text, ENDS.format("int64[3]").replace("k)", "k, bool flag)"))
    assert "'asks'" in reasons(model, product.patterns[0])


def test_a_wrong_size_fails_the_proof(monkeypatch):
    """Sizes that were mixed up would be seen: the site is rolled back, with what was built on it."""
    right = shape_uses._parts

    def mixed(wanted, known):
        parts = right(wanted, known)
        return [shape_uses.SizeRange(part.name, 0, part.sizes) if part.name == "k" else part for part in parts]

    monkeypatch.setattr(shape_uses, "_parts", mixed)
    model = graph(f"{CORE} z = Shape(s)", ENDS.format("int64[3]"))
    after, report = rewrite(model, product, keep_going=True)
    assert [site.outcome for site in report.rolled_back] == ["failed"]
    assert after.SerializeToString() == model.SerializeToString()


def test_a_wrong_rule_takes_the_sizes_back_with_it():
    wrong = make(product.patterns[0], lambda g, q, k: g.sin(g.matmul(q, k)), name="wrong")
    model = graph(f"{CORE} z = Shape(s)", ENDS.format("int64[3]"))
    after, report = rewrite(model, wrong, keep_going=True)
    assert len(report.rolled_back) == 1
    assert after.SerializeToString() == model.SerializeToString()


def test_what_the_match_itself_takes_in_is_not_asked_elsewhere():
    """The arithmetic for a Reshape inside the match goes with it."""
    before = lambda g, x: g.tanh(g.reshape(g.relu(x), g.any_tensor()))  # noqa: E731
    flat = make(before, lambda g, x: g.tanh(g.flatten(g.relu(x))), name="flat")
    model = graph("r = Relu(x) s = Shape(r) f = Reshape(r, s) y = Tanh(f)")
    after, report = run(model, flat)
    assert report.proved
    assert "Shape" not in [node.op_type for node in after.graph.node]


def test_of_several_places_each_asks_its_own():
    body = "s = MatMul(q, k) r = Relu(s) y = Tanh(r) h = Shape(s) s2 = MatMul(y, w) r2 = Relu(s2) y2 = Tanh(r2) "
    body += "h2 = Shape(s2) z = Concat<axis = 0>(h, h2)"
    ends = "(float[b, n, 4] q, float[b, 4, m] k, float[b, m, p] w) => (float[b, n, p] y2, int64[6] z)"
    model = graph(body, ends)
    after, report = run(model, product)
    assert report.proved
    assert report.counts == {"product": 2}
    for feeds in (fed(q=(2, 3, 4), k=(2, 4, 5), w=(2, 5, 7)), fed(q=(1, 1, 4), k=(1, 4, 2), w=(1, 2, 1))):
        assert same(model, after, feeds)
    onnx.checker.check_model(after, full_check=True)
