"""Nodes that a rule reads as context and writes again as they are: the file has them as it had them."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from surgeon.patterns.norms.residual_sum import residual_sum

from surgeon import Graph, Tensor, rewrite, rule
from surgeon.ir.verify_rewrite import new_violations
from surgeon.testing import parse
from tests.models import graph, make, opset, run

NORM = "t = Add(x, s) y = LayerNormalization<axis = -1, epsilon = 0.001>(t, w, b)"
NORMED = "(float[n, 3, 4] x, float[n, 3, 4] s) => (float[n, 3, 4] y)"
WEIGHTS = "float[4] w = {1, 2, 3, 4}, float[4] b = {4, 3, 2, 1}"


def records(model):
    return [node.SerializeToString() for node in model.graph.node]


def noted(model):
    """The model with a name, a doc string and metadata at every node."""
    for place, node in enumerate(model.graph.node):
        node.name = f"/layer/{node.op_type}_{place}"
        node.doc_string = f"line {place}"
        node.metadata_props.add(key="namespace", value="layer")
    return model


def same_values(before, after, **feeds):
    one, two = (ReferenceEvaluator(model).run(None, feeds) for model in (before, after))
    return all(np.allclose(left, right, atol=1e-5) for left, right in zip(one, two, strict=True))


@pytest.mark.parametrize("more", ["", " z = Relu(t)"])
def test_a_normalisation_behind_a_sum_stays_byte_for_byte(more):
    head = NORMED.replace("y)", "y, float[n, 3, 4] z)") if more else NORMED
    model = noted(graph(NORM + more, head, WEIGHTS, opset(17)))
    after, report = run(model, residual_sum)
    assert report.proved
    assert [node.op_type for node in after.graph.node][:2] == ["Sum", "LayerNormalization"]
    assert records(after)[1:] == records(model)[1:]
    (site,) = report.sites
    assert [node.op for node in site.replaced] == ["Add"]
    assert [(node.op, node.outputs) for node in site.added] == [("Sum", ("t",))]
    notes = {item.key: item.value for item in after.graph.node[0].metadata_props}
    assert notes == {"namespace": "layer", "surgeon.from": "/layer/Add_0", "surgeon.rule": "residual_sum"}


def below(g: Graph, x: Tensor) -> Tensor:
    return g.tanh(g.relu(g.transpose(x, perm=[1, 0])))


@rule(patterns=[below])
def sin_below(g: Graph, x: Tensor) -> Tensor:
    """Written from what it saw; numbers are of no matter here."""
    return g.sin(g.relu(g.transpose(x, perm=[1, 0])))


def test_what_stands_before_stays_in_its_place():
    text = "[turn] t = Transpose<perm = [1, 0]>(x) [other] o = Abs(x) r = Relu(t) p = Neg(o) h = Tanh(r) y = Add(h, p)"
    model = graph(text, "(float[4, 4] x) => (float[4, 4] y)")
    after, report = run(model, sin_below, check="none")
    assert [node.op_type for node in after.graph.node] == ["Transpose", "Abs", "Relu", "Neg", "Sin", "Add"]
    assert [one == two for one, two in zip(records(model), records(after), strict=True)] == [True] * 4 + [False, True]
    assert [node.op for node in report.sites[0].replaced] == ["Tanh"]
    assert [node.op for node in report.sites[0].added] == ["Sin"]


def test_unknown_fields_of_a_kept_node_stay():
    model = graph("t = Transpose<perm = [1, 0]>(x) r = Relu(t) y = Tanh(r)", "(float[4, 4] x) => (float[4, 4] y)")
    odd = model.graph.node[1].SerializeToString() + bytes((0xF2, 0x3E, 3)) + b"odd"  # field 1006, of no onnx.proto
    model.graph.node[1].CopyFrom(onnx.NodeProto.FromString(odd))
    after, _ = run(model, sin_below, check="none")
    assert records(after)[1] == model.graph.node[1].SerializeToString()
    assert b"odd" in records(after)[1]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("t = Transpose<perm = [0, 1]>(x) r = Relu(t) y = Tanh(r)", "other attributes"),
        ("r = Relu(x) y = Tanh(r)", "another input"),
    ],
)
def test_what_differs_is_written_anew(body, why):
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.tanh(g.relu(g.any_of(g.transpose(x, perm=[0, 1]), x)))

    made = make(pattern, lambda g, x: g.sin(g.relu(g.transpose(x, perm=[1, 0]))), name="other")
    after, report = run(noted(graph(body, "(float[4, 4] x) => (float[4, 4] y)")), made, check="none")
    assert [node.op for node in report.sites[0].added] == ["Transpose", "Relu", "Sin"], why
    assert all(any(item.key == "surgeon.rule" for item in node.metadata_props) for node in after.graph.node)


def test_a_default_that_is_written_out_is_the_same():
    model = graph("s = Softmax<axis = -1>(x) y = Tanh(s)")
    soft = make(lambda g, x: g.tanh(g.softmax(x)), lambda g, x: g.sin(g.softmax(x)), name="soft")
    after, report = run(model, soft, check="none")
    assert records(after)[0] == records(model)[0]
    assert [node.op for node in report.sites[0].added] == ["Sin"]


@pytest.mark.parametrize(("number", "kept"), [(0.5, True), (0.25, False)])
def test_an_equal_constant_is_the_same(number, kept):
    model = graph("m = Mul(x, half) y = Tanh(m)", constants="float half = {0.5}")
    halves = make(lambda g, x: g.tanh(g.mul(x, 0.5)), lambda g, x: g.sin(g.mul(x, np.float32(number))), name="halves")
    after, report = run(model, halves, check="none")
    assert (records(after)[0] == records(model)[0]) == kept
    assert len(after.graph.initializer) == 1
    assert len(report.sites[0].added) == 1 + (not kept)


def test_a_kept_node_goes_with_a_later_rule_and_is_reported_as_gone():
    @rule(patterns=[lambda g, x: g.sin(g.relu(x))])
    def both(g: Graph, x: Tensor) -> Tensor:
        return g.elu(x)

    model = graph("t = Transpose<perm = [1, 0]>(x) r = Relu(t) y = Tanh(r)", "(float[4, 4] x) => (float[4, 4] y)")
    after, report = run(model, [sin_below, both], check="none")
    assert [node.op_type for node in after.graph.node] == ["Transpose", "Elu"]
    assert records(after)[0] == records(model)[0]
    assert sorted(node.op for node in report.sites[0].replaced) == ["Relu", "Tanh"]
    assert [node.op for node in report.sites[0].added] == ["Elu"]


def test_readers_of_a_kept_tensor_are_counted_anew():
    """What the first rule keeps is an orphan once the second has taken all that reads it."""

    @rule(patterns=[lambda g, x: g.sin(x)])
    def noise(g: Graph, x: Tensor) -> Tensor:
        return g.random_normal(shape=[4, 4])

    model = graph("t = Transpose<perm = [1, 0]>(x) r = Relu(t) y = Tanh(r)", "(float[4, 4] x) => (float[4, 4] y)")
    after, _ = run(model, [sin_below, noise], check="none")
    assert [node.op_type for node in after.graph.node] == ["RandomNormal"]


def test_two_outputs_one_of_which_is_kept():
    pair = make(
        lambda g, x, z: (g.relu(g.abs(x)), g.tanh(g.add(x, z))),
        lambda g, x, z: (g.relu(g.abs(x)), g.sin(g.add(x, z))),
        name="pair",
    )
    text = "a = Abs(x) r = Relu(a) k = Neg(r) s = Add(x, w) h = Tanh(s) y = Add(h, k)"
    model = graph(text, "(float[n, 4] x, float[n, 4] w) => (float[n, 4] y)")
    after, _ = run(model, pair, check="none")
    assert not new_violations(model, after)
    kept = [node for node in after.graph.node if not node.metadata_props]
    assert sorted(node.output[0] for node in kept) == ["a", "k", "r", "s", "y"]
    assert {node.SerializeToString() for node in kept} <= set(records(model))


def test_roll_back_leaves_a_kept_node_as_it_was():
    @rule(patterns=[below])
    def wrong(g: Graph, x: Tensor) -> Tensor:
        return g.sin(g.relu(g.transpose(x, perm=[1, 0])))

    model = graph("t = Transpose<perm = [1, 0]>(x) r = Relu(t) y = Tanh(r)", "(float[4, 4] x) => (float[4, 4] y)")
    after, report = rewrite(model, wrong, keep_going=True)
    assert report.rolled_back
    assert not report.sites
    assert after.SerializeToString() == model.SerializeToString()


def test_in_a_function_and_in_a_body():
    text = (
        "y = If (flag) <then_branch = t () => (float[4, 4] tr) { p = Transpose<perm = [1, 0]>(x) q = Relu(p) "
        "tr = Tanh(q) }, else_branch = e () => (float[4, 4] er) { er = Neg(x) }>"
    )
    model = graph(text, "(float[4, 4] x, bool flag) => (float[4, 4] y)")
    after, _ = run(model, sin_below, check="none")
    items = [next(item for item in one.graph.node[0].attribute if item.name == "then_branch") for one in (model, after)]
    bodies = [item.g for item in items]
    first, second = ([node.SerializeToString() for node in body.node] for body in bodies)
    assert [one == two for one, two in zip(first, second, strict=True)] == [True, True, False]


def test_the_kept_model_computes_the_same():
    model = parse(f"{NORMED} <{WEIGHTS}> {{ {NORM} }}")
    after, _ = rewrite(model, "residual_sum")
    numbers = np.random.default_rng(0)
    x, s = (numbers.normal(size=(2, 3, 4)).astype(np.float32) for _ in range(2))
    assert same_values(model, after, x=x, s=s)
