"""Nodes that look alike cost one rule; bodies are found without a walk over those of other nodes."""

import pytest
from onnx import TensorProto, helper

import surgeon
from surgeon import Graph, Tensor, rule
from surgeon.ir.scope import Scope
from surgeon.pipeline.rewriting import site_regions
from surgeon.proof.site.site_prover import SiteProver
from surgeon.shapes.algebra.size_expressions import symbol
from surgeon.shapes.shape_inference import ShapeInference
from surgeon.testing import parse
from tests.shaping_run import shapes_of

N = symbol("n")


def facts_of(text, *names):
    shapes, main = shapes_of(parse(text))
    return [tuple(shapes.facts(main, name)) for name in names]


def test_equal_layers_are_evaluated_by_rule_once(monkeypatch):
    calls = []
    by_rule = ShapeInference._by_rule
    monkeypatch.setattr(
        ShapeInference, "_by_rule", lambda self, site: calls.append(site.node.op) or by_rule(self, site)
    )
    nodes = "".join(f"m{i} = MatMul(s{i}, w) a{i} = Add(m{i}, b) s{i + 1} = Sigmoid(a{i}) " for i in range(50))
    header = "(float[n, 4] s0, float[4, 4] w, float[4] b) => (float[n, 4] s50)"
    shapes, main = shapes_of(parse(header + "{" + nodes + "}"))
    assert tuple(shapes.facts(main, "a49")) == (TensorProto.FLOAT, (N, 4))
    assert len(calls) <= 6, calls


def test_weights_of_other_shapes_or_dtypes_are_no_repeats():
    text = """(float[n, 4] x, double[n, 4] d) => (float[n, 2] y)
        <float[4, 4] v = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, float[4, 2] w = {1, 1, 1, 1, 1, 1, 1, 1}>
        { a = MatMul(x, v) b = MatMul(a, v) y = MatMul(b, w) r = Relu(x) s = Relu(d) }"""
    float32, double = TensorProto.FLOAT, TensorProto.DOUBLE
    assert facts_of(text, "a", "b", "y", "r", "s") == [
        (float32, (N, 4)),
        (float32, (N, 4)),
        (float32, (N, 2)),
        (float32, (N, 4)),
        (double, (N, 4)),
    ]


def test_the_order_of_the_inputs_and_the_op_count():
    """The result of Pow is of the first input's dtype, that of Greater is a truth."""
    text = """(float[n] x, int64[n] i) => (float[n] y)
        { a = Pow(x, i) b = Pow(i, x) c = Mul(x, x) d = Greater(x, x) y = Identity(a) }"""
    assert facts_of(text, "a", "b", "c", "d") == [
        (TensorProto.FLOAT, (N,)),
        (TensorProto.INT64, (N,)),
        (TensorProto.FLOAT, (N,)),
        (TensorProto.BOOL, (N,)),
    ]


def test_dims_that_nothing_reports_keep_the_name_of_their_own_tensor():
    text = """(bool[n] x, bool[n] z) => (int64[a, b] y, int64[c, d] w)
        { f = NonZero(x) g = NonZero(z) h = Abs(f) k = Abs(g) p = Concat<axis = 1>(h, k) y = Neg(p) w = Neg(k) }"""
    shapes, main = shapes_of(parse(text))
    found = [shapes.facts(main, name).shape for name in ("h", "k")]
    assert found == [(1, symbol("?f[1]")), (1, symbol("?g[1]"))]


def test_what_a_file_states_is_not_passed_on_as_a_repeat():
    text = """(float[n, 4] x) => (float[n, 4] z) <float[n, 4] a, float[m, 4] b>
        { a = Relu(x) b = Relu(x) c = Relu(x) d = Relu(b) z = Relu(c) }"""
    model = parse(text)
    shapes, main = shapes_of(model)
    assert [shapes.facts(main, name).shape[1] for name in ("a", "b", "c", "d")] == [4] * 4
    assert [shapes.facts(main, name).shape[0] for name in ("a", "c")] == [N, N]


def test_a_local_function_with_the_name_of_an_op_is_no_such_op():
    """It gives the shape of what it gets."""
    body = [helper.make_node("Shape", ["p"], ["q"])]
    function = helper.make_function("", "Relu", ["p"], ["q"], body, [helper.make_opsetid("", 17)])
    model = parse("(float[n, 4] x) => (float[n, 4] y) { a = Neg(x) y = Relu(a) }")
    model.functions.append(function)
    shapes, main = shapes_of(model)
    assert tuple(shapes.facts(main, "a")) == (TensorProto.FLOAT, (N, 4))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.INT64, None))
    shapes, main = shapes_of(model)
    assert tuple(shapes.facts(main, "y")) == (TensorProto.INT64, (2,))


@rule(patterns=[lambda g, x: g.relu(g.relu(x))])
def relu_once(g: Graph, x: Tensor) -> Tensor:
    """Right."""
    return g.relu(x)


def with_branches(ifs: int, sites: int):
    """Ifs in a row, and sites behind copies: a proof goes back from those."""
    nodes, last = [], "x"
    for number in range(ifs):
        ends = [(op, f"b{number}{op}") for op in ("Sin", "Cos")]
        then, other = (
            helper.make_graph(
                [helper.make_node(op, [last], [end])], op, [], [helper.make_tensor_value_info(end, 1, None)]
            )
            for op, end in ends
        )
        nodes.append(helper.make_node("If", ["c"], [f"i{number}"], then_branch=then, else_branch=other))
        last = f"i{number}"
    for number in range(sites):
        for op in ("Sin", "Identity", "Relu", "Relu"):
            nodes.append(helper.make_node(op, [last], [last := f"{last[:1]}{number}{op[0]}{len(nodes)}"]))
    nodes.append(helper.make_node("Neg", [last], ["y"]))
    ends = [helper.make_tensor_value_info(name, 1, ["n"]) for name in ("x", "y")]
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph = helper.make_graph(nodes, "branches", [ends[0], condition], [ends[1]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class _Counted(list):
    """A list that counts its elements whenever it is walked over."""

    walked = 0

    def __iter__(self):
        _Counted.walked += len(self)
        return super().__iter__()


@pytest.mark.parametrize("sites", [1, 8])
def test_proving_walks_over_the_bodies_of_a_scope_once(sites, monkeypatch):
    def hold(scope, bodies):
        scope.__dict__["counted"] = _Counted(bodies)

    monkeypatch.setattr(Scope, "bodies", property(lambda scope: scope.__dict__["counted"], hold), raising=False)
    walked, prove = [], SiteProver.prove

    def counting(self, regions):
        _Counted.walked = 0
        proofs = prove(self, regions)
        walked.append(_Counted.walked)
        return proofs

    monkeypatch.setattr(SiteProver, "prove", counting)
    monkeypatch.setattr(
        site_regions, "proof_class_key", lambda site, tell: site
    )  # each site counts, also one like another
    _, report = surgeon.rewrite(with_branches(30, sites), relu_once)
    assert report.outcome == "proved"
    assert len(report.sites) == sites
    assert sum(walked) <= 60, "two bodies for each If, once"
