"""The pattern language: what a function can say, what it binds, and what is wrong with it."""

import numpy as np
import pytest

from surgeon import Constant, Graph, RuleError, Tensor, require
from surgeon.rules.tracing.tracer import trace
from tests.models import graph, make, matches, ops, opset, reasons, run

MY = opset(17)


def fused(g: Graph, x: Tensor) -> Tensor:
    return g.neg(x)


def nested_forms(g: Graph, x: Tensor) -> Tensor:
    inner = g.any_of(g.relu(x), g.any_of(g.tanh(x), g.sigmoid(g.any_of(g.abs(x), g.ceil(x)))))
    return g.exp(inner)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("a = Relu(x) y = Exp(a)", 1),
        ("a = Tanh(x) y = Exp(a)", 1),
        ("b = Abs(x) a = Sigmoid(b) y = Exp(a)", 1),
        ("b = Ceil(x) a = Sigmoid(b) y = Exp(a)", 1),
        ("a = Sigmoid(x) y = Exp(a)", 0),
        ("a = Floor(x) y = Exp(a)", 0),
    ],
)
def test_any_of_may_be_nested(body, count):
    assert len(matches(graph(body), nested_forms)) == count


def test_any_of_at_the_root_becomes_patterns_of_its_own():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.any_of(g.relu(x), g.any_of(g.tanh(x), g.mul(x, 3.0)))

    model = graph("a = Relu(x) b = Tanh(a) y = Mul(three, b)", constants="float three = {3.0}")
    assert len(trace(pattern)) == 3
    assert sorted(match.root.op for match in matches(model, pattern)) == ["Mul", "Relu", "Tanh"]


def test_a_form_that_fails_leaves_nothing_bound():
    def pattern(g: Graph, x: Tensor, z: Tensor) -> Tensor:
        return g.div(g.any_of(g.exp(g.capture("inner", g.relu(z))), g.exp(g.tanh(z))), g.sigmoid(x))

    [match] = matches(graph("t = Tanh(x) e = Exp(t) s = Sigmoid(x) y = Div(e, s)"), pattern)
    assert set(match.bound) == {"x", "z"}


@pytest.mark.parametrize("with_node", [True, False])
def test_an_optional_node_may_be_there_or_not(with_node):
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.exp(g.optional(g.relu(g.tanh(x))))

    body = "t = Tanh(x) r = Relu(t) y = Exp(r)" if with_node else "t = Tanh(x) y = Exp(t)"
    after, report = run(graph(body), make(pattern, fused), check="none")
    assert [len(site.replaced) for site in report.sites] == [3 if with_node else 2]
    assert ops(after.graph) == ["Neg"]


def test_a_captured_attribute_takes_its_default_too():
    def pattern(g: Graph, x: Tensor, alpha: float) -> Tensor:
        return g.leaky_relu(x, alpha=alpha)

    model = graph("a = LeakyRelu<alpha = 0.5>(x) y = LeakyRelu(a)")
    assert [match["alpha"] for match in matches(model, pattern)] == pytest.approx([0.5, 0.01])


def test_a_captured_attribute_reaches_the_replacement():
    def pattern(g: Graph, x: Tensor, alpha: float) -> Tensor:
        return g.leaky_relu(x, alpha=alpha)

    def as_prelu(g: Graph, x: Tensor, alpha: float) -> Tensor:
        return g.prelu(x, alpha)

    after, report = run(graph("a = LeakyRelu<alpha = 0.5>(x) y = LeakyRelu(a)"), make(pattern, as_prelu))
    assert ops(after.graph) == ["PRelu", "PRelu"]
    assert report.proved


def test_a_captured_string_attribute_is_a_string():
    def pattern(g: Graph, x: Tensor, mode: str) -> Tensor:
        return g.op("my::act", x, mode=mode)

    [match] = matches(graph('y = my.act<mode = "fast">(x)', header=MY), pattern)
    assert match["mode"] == "fast"


def test_captured_lists():
    def pattern(g: Graph, x: Tensor, perm: list[int]) -> Tensor:
        return g.transpose(x, perm=perm)

    [match] = matches(graph("y = Transpose<perm = [1, 0]>(x)", "(float[n, 4] x) => (float[4, n] y)"), pattern)
    assert match["perm"] == [1, 0]


def test_a_float_is_taken_out_of_a_scalar_constant():
    def pattern(g: Graph, x: Tensor, slope: float) -> Tensor:
        return g.relu(g.mul(x, slope))

    def as_leaky(g: Graph, x: Tensor, slope: float) -> Tensor:
        require(slope == 2.5, "only 2.5 here")
        return g.prelu(x, slope * 0.0) if slope < 0 else g.mul(g.relu(x), slope)

    model = graph("m = Mul(c, x) y = Relu(m)", constants="float c = {2.5}")
    [match] = matches(model, pattern)
    assert match["slope"] == 2.5
    assert len(list(matches(graph("m = Mul(x, x) y = Relu(m)"), pattern))) == 0
    assert run(model, make(pattern, as_leaky))[1].proved


def test_a_constant_has_values_in_condition_and_replacement():
    def pattern(g: Graph, x: Tensor, w: Constant) -> Tensor:
        return g.exp(g.matmul(x, w))

    def symmetric(w: Constant) -> None:
        require(np.array_equal(w.values, w.values.T), "w must be symmetric")

    def doubled(g: Graph, x: Tensor, w: Constant) -> Tensor:
        return g.exp(g.add(g.matmul(x, w.values * 0.5), g.matmul(x, w.values * 0.5)))

    fine = graph("m = MatMul(x, w) y = Exp(m)", "(float[n, 2] x) => (float[n, 2] y)", "float[2, 2] w = {1, 2, 2, 1}")
    bad = graph("m = MatMul(x, w) y = Exp(m)", "(float[n, 2] x) => (float[n, 2] y)", "float[2, 2] w = {1, 2, 3, 1}")
    dynamic = graph("m = MatMul(x, w) y = Exp(m)", "(float[n, 2] x, float[2, 2] w) => (float[n, 2] y)")
    rule = make(pattern, doubled, conditions=[symmetric])
    after, report = run(fine, rule)
    assert report.proved
    assert [tensor.name for tensor in after.graph.initializer] != ["w"]
    assert run(bad, rule)[1].misses[0].reason == "w must be symmetric"
    assert "expected a constant for 'w'" in reasons(dynamic, pattern)


def test_rest_takes_all_further_inputs():
    def pattern(g: Graph, x: Tensor, *rest: Tensor) -> Tensor:
        return g.relu(g.concat(x, *rest, axis=0))

    def after_relu(g: Graph, x: Tensor, *rest: Tensor) -> Tensor:
        return g.concat(*(g.relu(item) for item in (x, *rest)), axis=0)

    head = "(float[2] a, float[2] b, float[2] c) => (float[m] y)"
    model = graph("k = Concat<axis = 0>(a, b, c) y = Relu(k)", head)
    [match] = matches(model, pattern)
    assert [item.name for item in match["rest"]] == ["b", "c"]
    after, report = run(model, make(pattern, after_relu))
    assert ops(after.graph) == ["Relu", "Relu", "Relu", "Concat"]
    assert report.proved
    [alone] = matches(graph("k = Concat<axis = 0>(a) y = Relu(k)", "(float[2] a) => (float[m] y)"), pattern)
    assert alone["rest"] == []


@pytest.mark.parametrize("negative", [True, False])
def test_attributes_take_all_further_attributes(negative):
    def pattern(g: Graph, x: Tensor, **attributes: object) -> Tensor:
        return g.op("my::act", x, kind="relu", **attributes)

    def moved(g: Graph, x: Tensor, attributes: dict) -> Tensor:
        return g.op("my::relu", x, **attributes)

    kind = "tanh" if negative else "relu"
    model = graph(f'y = my.act<kind = "{kind}", alpha = 0.5, axes = [1, 2]>(x)', header=MY)
    after, report = run(model, make(pattern, moved), check="none")
    if negative:
        assert "expected kind = relu" in report.misses[0].reason
    else:
        [node] = after.graph.node
        assert {item.name for item in node.attribute} == {"alpha", "axes"}
        assert list(next(item for item in node.attribute if item.name == "axes").ints) == [1, 2]


def test_attributes_reach_a_replacement_written_like_the_pattern():
    def pattern(g: Graph, x: Tensor, **attributes: object) -> Tensor:
        return g.op("my::act", x, **attributes)

    def moved(g: Graph, x: Tensor, **attributes: object) -> Tensor:
        return g.op("my::relu", x, **attributes)

    after, _ = run(graph("y = my.act<alpha = 0.5>(x)", header=MY), make(pattern, moved), check="none")
    assert [item.f for item in after.graph.node[0].attribute] == [0.5]


@pytest.mark.parametrize(("inputs", "bias"), [("x, w", None), ("x, w, b", "b"), ("x, w, ", None)])
def test_an_input_may_be_left_out(inputs, bias):
    def pattern(g: Graph, x: Tensor, w: Constant, bias: Tensor | None = None) -> Tensor:
        return g.relu(g.gemm(x, w, bias))

    def again(g: Graph, x: Tensor, w: Constant, bias: Tensor | None = None) -> Tensor:
        return g.max(g.gemm(x, w, bias), 0.0)

    model = graph(
        f"m = Gemm({inputs}) y = Relu(m)",
        "(float[n, 2] x) => (float[n, 2] y)",
        "float[2, 2] w = {1, 2, 3, 1}, float[2] b = {1, 2}",
    )
    [match] = matches(model, pattern)
    assert (match["bias"] and match["bias"].name) == bias
    after, _ = run(model, make(pattern, again))
    assert [len(node.input) for node in after.graph.node if node.op_type == "Gemm"] == [2 if bias is None else 3]


def test_calls_of_composite_helpers_are_recorded():
    """So the manual of a rule shows a helper by its name."""

    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.exp(g.square_root(g.neg(x)))

    [found] = trace(pattern)
    [call] = found.helper_calls.values()
    assert call.word == "square_root"
    assert call.value is found.outputs[0].operation.inputs[0]


def test_wildcards_match_any_domain_or_op():
    def any_domain(g: Graph, x: Tensor) -> Tensor:
        return g.op("*::deform_conv2d", x, groups=2)

    def any_op(g: Graph, x: Tensor) -> Tensor:
        return g.op("my::*", g.relu(x))

    model = graph(
        "a = torchvision.deform_conv2d<groups = 2>(x) r = Relu(a) y = my.thing(r)", header=opset(17, torchvision=1)
    )
    assert [match.root.op for match in matches(model, any_domain)] == ["torchvision::deform_conv2d"]
    assert [match.root.op for match in matches(model, any_op)] == ["my::thing"]


def test_a_custom_attribute_that_the_pattern_does_not_name_blocks():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.op("my::act", x, alpha=0.5)

    assert len(matches(graph("y = my.act<alpha = 0.5>(x)", header=MY), pattern)) == 1
    model = graph("y = my.act<alpha = 0.5, beta = 2.0>(x)", header=MY)
    assert not matches(model, pattern)
    assert "has beta = 2.0; the pattern expects the default" in reasons(model, pattern)


def test_a_literal_has_a_tolerance_of_its_own():
    def loose(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.mul(x, g.literal(1.4, rtol=0.1)))

    def outside_a_chain(g: Graph, x: Tensor) -> Tensor:
        return g.pow(x, g.literal(2.0, rtol=0.1))

    def model(number, op="Mul"):
        return graph(f"m = {op}(x, c) y = Relu(m)", constants=f"float c = {{{number}}}")

    assert len(matches(model(1.45), loose)) == 1
    assert len(matches(model(1.6), loose)) == 0
    assert len(matches(model(2.1, "Pow"), outside_a_chain)) == 1
    assert len(matches(model(2.3, "Pow"), outside_a_chain)) == 0


def test_a_literal_of_several_elements():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.mul(x, [1.0, 2.0, 3.0, 4.0])

    assert len(matches(graph("y = Mul(x, c)", constants="float[4] c = {1, 2, 3, 4}"), pattern)) == 1
    assert len(matches(graph("y = Mul(c, x)", constants="float[4] c = {1, 2, 3, 4}"), pattern)) == 1
    assert len(matches(graph("y = Mul(c, x)", constants="float[4] c = {1, 2, 3, 5}"), pattern)) == 0
    assert len(matches(graph("y = Mul(c, x)", constants="float c = {1}"), pattern)) == 0


def test_capture_names_an_inner_tensor_for_a_condition():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.capture("inner", g.tanh(x)))

    def named(inner: Tensor, match: object) -> None:
        require(inner.name == "t", f"{inner.name} is not t")

    rule = make(pattern, fused, conditions=[named])
    assert len(run(graph("t = Tanh(x) y = Relu(t)"), rule, check="none")[1].sites) == 1
    assert run(graph("u = Tanh(x) y = Relu(u)"), rule, check="none")[1].misses[0].reason == "u is not t"


def test_a_replacement_cannot_read_a_tensor_that_goes():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.capture("inner", g.tanh(x)))

    def reads_it(g: Graph, inner: Tensor) -> Tensor:
        return g.neg(inner)

    with pytest.raises(RuleError, match="inner"):
        run(graph("t = Tanh(x) y = Relu(t)"), make(pattern, reads_it), check="none")


def test_constants_may_be_one_of_several_forms():
    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.mul(g.abs(x), g.any_of(2.0, 3.0)))

    def model(number):
        return graph("a = Abs(x) m = Mul(a, c) y = Relu(m)", constants=f"float c = {{{number}}}")

    assert [len(matches(model(number), pattern)) for number in (2, 3, 4)] == [1, 1, 0]
