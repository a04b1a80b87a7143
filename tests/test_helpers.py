"""Helpers: users' own, those on a plain gs.Graph, and how they follow opset and dtype."""

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import onnxruntime
import pytest
from onnx import TensorProto
from surgeon.patterns.activations.gelu import gelu

from surgeon import Graph, OpsetError, RuleError, Tensor, rule
from surgeon.ops.builder.graph import user_helper
from tests.models import graph, make, matches, ops, opset, run

GELU = "d = Div(x, sqrt2) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)"
CONSTANTS = "float sqrt2 = {1.4142135}, float one = {1.0}, float half = {0.5}"


@pytest.fixture
def registry():
    """The registry of gs.Graph, put back after the test."""
    every = dict(gs.Graph.GLOBAL_FUNC_MAP)
    by_opset = {key: dict(value) for key, value in gs.Graph.OPSET_FUNC_MAP.items()}
    yield gs.Graph
    gs.Graph.GLOBAL_FUNC_MAP.clear()
    gs.Graph.GLOBAL_FUNC_MAP.update(every)
    gs.Graph.OPSET_FUNC_MAP.clear()
    gs.Graph.OPSET_FUNC_MAP.update(by_opset)


def test_a_helper_in_the_style_of_gs_works_on_both_sides(registry):
    @gs.Graph.register()
    def my_swish(self, a):
        gate = self.layer(op="Sigmoid", inputs=[a], outputs=["s"])
        return self.layer(op="Mul", inputs=[a, *gate], outputs=["swish"])

    @gs.Graph.register()
    def plugin(self, a, **attrs):
        return self.layer(op="Swish_TRT", domain="my", inputs=[a, 1.5], outputs=["out"], attrs={"beta": 1.0, **attrs})

    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.my_swish(x)[0]

    def replacement(g: Graph, x: Tensor) -> Tensor:
        return g.plugin(x, kind="silu")

    after, _ = run(graph("s = Sigmoid(x) y = Mul(s, x)"), make(pattern, replacement), check="none")
    [node] = after.graph.node
    assert (node.domain, node.op_type, len(node.input)) == ("my", "Swish_TRT", 2)
    assert {item.name for item in node.attribute} == {"beta", "kind"}
    assert {item.domain for item in after.opset_import} >= {"my"}


def test_a_user_s_helper_wins_in_the_user_s_rules_alone(registry):
    @gs.Graph.register()
    def erf(self, a):
        return self.layer(op="Tanh", inputs=[a], outputs=["t"])[0]

    @gs.Graph.register()
    def mul(self, a, b):
        return self.layer(op="Div", inputs=[a, b], outputs=["d"])[0]

    @rule(patterns=[lambda g, x: g.relu(g.erf(x))])
    def mine(g: Graph, x: Tensor) -> Tensor:
        return g.mul(g.erf(x), x)

    from surgeon.patterns.activations import gelu as module

    fresh = rule(patterns=[module.exact], name="fresh_gelu")(module.gelu.forms[0].function)
    assert user_helper("erf", None, "") is erf
    assert user_helper("erf", None, "surgeon") is None
    after, _ = run(graph(GELU, constants=CONSTANTS), fresh)
    assert ops(after.graph) == ["Gelu"]
    after, _ = run(graph("t = Tanh(x) y = Relu(t)"), mine, check="none")
    assert ops(after.graph) == ["Tanh", "Div"]


def test_helpers_for_certain_opsets(registry):
    @gs.Graph.register(opsets=[11])
    def squash(self, a):
        return self.layer(op="Tanh", inputs=[a], outputs=["t"])[0]

    @gs.Graph.register(opsets=[17])
    def squash(self, a):  # noqa: F811 - gs keeps one per opset
        return self.layer(op="Sigmoid", inputs=[a], outputs=["t"])[0]

    def pattern(g: Graph, x: Tensor) -> Tensor:
        return g.relu(g.squash(x))

    assert len(matches(graph("t = Tanh(x) y = Relu(t)", header=opset(17)), pattern)) == 1
    assert len(matches(graph("t = Sigmoid(x) y = Relu(t)", header=opset(17)), pattern)) == 1
    anew = make(lambda g, x: g.relu(g.sin(x)), lambda g, x: g.squash(x), name="anew")
    assert ops(run(graph("t = Sin(x) y = Relu(t)", header=opset(11)), anew, check="none")[0].graph) == ["Tanh"]
    assert ops(run(graph("t = Sin(x) y = Relu(t)", header=opset(17)), anew, check="none")[0].graph) == ["Sigmoid"]


def test_a_plain_gs_graph_has_the_helpers():
    plain = gs.Graph(opset=17)
    x = gs.Variable("x", np.float32, ("n", 4))
    plain.inputs = [x]
    h = plain.mul(plain.erf(plain.div(x, np.array(2.0, np.float32))), np.array([1, 2, 3, 4], np.float32))
    mean = plain.reduce_mean(h, axes=[-1], keepdims=1)
    left, right = plain.split(plain.sub(h, mean), axis=-1, outputs=2)
    y = plain.concat(right, left, axis=-1)
    y.dtype, y.shape, y.name = np.float32, ("n", 4), "y"
    plain.outputs = [y]
    model = gs.export_onnx(plain)
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.ones((3, 4), np.float32)})[0].shape == (3, 4)


@pytest.mark.parametrize("version", [11, 17, 18, 22])
def test_one_replacement_is_right_at_every_opset(version):
    """axes are an attribute at 17 and an input at 18; Split, Squeeze and Unsqueeze moved at 13."""

    def written(g: Graph, x: Tensor) -> Tensor:
        mean = g.reduce_mean(x, axes=[-1], keepdims=0)
        left, right = g.split(g.sub(x, g.unsqueeze(mean, [-1])), axis=-1, outputs=2)
        total = g.reduce_sum(g.concat(left, right, axis=-1), axes=[-1])
        return g.add(g.squeeze(g.unsqueeze(total, [0]), [0]), g.clip(x, 0.0, 6.0))

    model = graph("t = Tanh(x) y = Relu(t)", header=opset(version, 8))
    after, report = run(model, make(lambda g, x: g.relu(g.tanh(x)), written), check="none")
    assert len(report.sites) == 1
    onnx.checker.check_model(after, full_check=True)
    session = onnxruntime.InferenceSession(after.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.array([[-1, 0, 1, 8]], np.float32)
    assert np.allclose(session.run(None, {"x": x})[0], np.clip(x, 0, 6), atol=1e-5)


@pytest.mark.parametrize(("name", "number"), [("float", 1), ("float16", 10), ("double", 11), ("bfloat16", 16)])
def test_numbers_take_the_dtype_of_their_siblings(name, number):
    def written(g: Graph, x: Tensor) -> Tensor:
        return g.add(g.mul(g.sin(x), 0.5), g.max(x, [1.0]))

    model = graph("t = Tanh(x) y = Relu(t)", f"({name}[n, 4] x) => ({name}[n, 4] y)", header=opset(22))
    after, report = run(model, make(lambda g, x: g.relu(g.tanh(x)), written), check="none")
    assert {tensor.data_type for tensor in after.graph.initializer} == {number}
    assert len(report.sites) == 1
    onnx.checker.check_model(after, full_check=True)


def test_integers_stay_integers_beside_shapes():
    def written(g: Graph, x: Tensor) -> Tensor:
        return g.reshape(x, g.mul(g.shape(x), [1, 1]))

    after, _ = run(graph("t = Tanh(x) y = Relu(t)"), make(lambda g, x: g.relu(g.tanh(x)), written), check="none")
    assert {tensor.data_type for tensor in after.graph.initializer} == {TensorProto.INT64}
    onnx.checker.check_model(after, full_check=True)


def test_attributes_are_coerced():
    def written(g: Graph, x: Tensor) -> Tensor:
        return g.cast(g.cast(g.leaky_relu(x, alpha=1), to="double"), to=np.float32)

    after, _ = run(graph("t = Tanh(x) y = Relu(t)"), make(lambda g, x: g.relu(g.tanh(x)), written), check="none")
    assert after.graph.node[0].attribute[0].f == 1.0
    assert after.graph.node[0].attribute[0].type == onnx.AttributeProto.FLOAT
    assert [node.attribute[0].i for node in after.graph.node[1:]] == [TensorProto.DOUBLE, TensorProto.FLOAT]


def test_optional_inputs_and_outputs():
    def written(g: Graph, x: Tensor) -> Tensor:
        y, _, _ = g.layer_normalization(x, np.ones(4), outputs=3)
        return g.add(y, g.resize(x, None, None, [2, 4]))

    model = graph("t = Tanh(x) y = Relu(t)", "(float[2, 4] x) => (float[2, 4] y)")
    after, _ = run(model, make(lambda g, x: g.relu(g.tanh(x)), written), check="none")
    assert list(next(node for node in after.graph.node if node.op_type == "Resize").input[1:3]) == ["", ""]
    onnx.checker.check_model(after, full_check=True)


def test_an_op_that_is_younger_than_the_model():
    younger = make(lambda g, x: g.relu(g.tanh(x)), lambda g, x: g.gelu(x), name="younger")
    _, report = run(graph("t = Tanh(x) y = Relu(t)"), younger, check="none")
    assert "ai.onnx has no Gelu at opset 17; Gelu needs opset 20" in report.misses[0].reason
    with pytest.raises(OpsetError, match="Gelu needs opset 20"):
        Graph(opset=17).gelu(gs.Variable("x"))


def test_a_rule_that_breaks_a_schema_whatever_the_model_is_wrong_in_itself():
    model = graph("t = Tanh(x) y = Relu(t)")
    wrong = make(lambda g, x: g.relu(g.tanh(x)), lambda g, x: g.op("Relu", x, x), name="wrong")
    with pytest.raises(RuleError, match="Rule wrong .*has at most 1 input, but got 2"):
        run(model, wrong, check="none")
    misspelt = make(lambda g, x: g.relu(g.tanh(x)), lambda g, x: g.op("com.microsoft::Gelluu", x), name="misspelt")
    with pytest.raises(RuleError, match="Rule misspelt .*Gelluu"):
        run(model, misspelt, check="none")


def test_what_breaks_a_schema_in_this_model_is_refused():
    """Gelu takes no integers, and there is none before opset 20."""
    fused = make(lambda g, x: g.abs(g.neg(x)), lambda g, x: g.ms_gelu(x), name="fused")
    _, report = run(graph("t = Neg(x) y = Abs(t)", "(int32[n] x) => (int32[n] y)"), fused, check="none")
    assert "violates a schema" in report.misses[0].reason
    newer = make(lambda g, x: g.abs(g.neg(x)), lambda g, x: g.op("Gelu", x), name="newer")
    _, report = run(graph("t = Neg(x) y = Abs(t)"), newer, check="none")
    assert "opset 17" in report.misses[0].reason


def test_numbers_that_do_not_fit_are_refused():
    """2.7 is no int32, and 1e6 no float16."""
    scaled = make(lambda g, x: g.abs(g.neg(x)), lambda g, x: g.mul(x, 2.7), name="scaled")
    _, report = run(graph("t = Neg(x) y = Abs(t)", "(int32[n] x) => (int32[n] y)"), scaled, check="none")
    assert "int32 cannot represent" in report.misses[0].reason
    large = make(lambda g, x: g.abs(g.neg(x)), lambda g, x: g.mul(x, 1e6), name="large")
    _, report = run(graph("t = Neg(x) y = Abs(t)", "(float16[n] x) => (float16[n] y)"), large, check="none")
    assert "float16 cannot represent" in report.misses[0].reason


def test_op_coerces_attributes_of_known_ops():
    """An int for a FLOAT attribute is a float, as with the op's own helper."""
    leaky = make(lambda g, x: g.relu(g.tanh(x)), lambda g, x: g.op("LeakyRelu", g.tanh(x), alpha=0), name="leaky")
    after, report = run(graph("t = Tanh(x) y = Relu(t)"), leaky)
    assert report.proved
    assert after.graph.node[1].attribute[0].type == onnx.AttributeProto.FLOAT


def test_a_real_graph_has_the_words_of_a_pattern():
    """The decomposed form of a rule is its pattern, run on a real graph."""

    def pattern(g: Graph, x: Tensor) -> Tensor:
        half = g.capture("half", g.mul(x, g.literal(0.5, rtol=1e-3)))
        return g.any_of(g.relu(g.optional(g.tanh(half))), g.tanh(half))

    words = rule(patterns=[pattern])(lambda g, x: g.op("my::fused", x))
    after, _ = run(graph("y = my.fused(x)", header=opset(17)), words, target="decomposed", check="none")
    assert ops(after.graph) == ["Mul", "Relu"]
    with pytest.raises(RuleError, match="at least one alternative"):
        Graph().any_of()


def test_the_builtin_rule_is_the_same_before_and_after(registry):
    @gs.Graph.register()
    def add(self, a, b):
        raise AssertionError("a built-in rule must not call this")

    again = rule(patterns=list(gelu.patterns), name="again")(gelu.forms[0].function)
    assert len(run(graph(GELU, constants=CONSTANTS), again)[1].sites) == 1
