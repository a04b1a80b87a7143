"""Oracles: which one runs a mini-model, in which order, and what is told where none does."""

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

from surgeon.runtime.sessions.float64_reference import Float64Reference
from surgeon.runtime.sessions.oracle import OWN_PATTERN, OWN_PATTERN_EVALUATED, open_oracle
from surgeon.runtime.sessions.ort_session import SessionError
from tests.oracle_models import GELU, X, answer, gelu, model

pytestmark = pytest.mark.usefixtures("forget_implementations")


def test_the_kernels_of_onnx_runtime_come_first():
    """Even where a body is at hand."""
    mini = model("(float[n] x) => (float[n] y) { y = com.microsoft.Gelu(x) }", y="node")
    body = onnx.parser.parse_function('<domain: "rule", opset_import: ["" : 17]> wrong (x) => (y) { y = Neg(x) }')
    name, independent, answers = answer(mini, {"x": X}, bodies={"node": body})
    assert (name, independent) == ("ONNX Runtime", True)
    np.testing.assert_array_equal(answers["y"], gelu(X, np.float32))


PLUGIN = '(float[n] x) => (float[n] y) {{ a = Neg(x); b = trt.plugins.MyGelu<plugin_version = "1">(a); y = {}(b) }}'


@pytest.mark.parametrize("key", ["node", "b"])
def test_a_plugin_is_computed_by_the_rules_own_pattern(key):
    """A node without a name goes by its first output."""
    mini = model(PLUGIN.format("Neg"), **({"b": "node"} if key == "node" else {}))
    name, independent, answers = answer(mini, {"x": X}, bodies={key: GELU})
    assert (name, independent) == (OWN_PATTERN, False)
    np.testing.assert_allclose(answers["y"], -gelu(-X), atol=1e-6)
    assert mini.graph.node[1].domain == "trt.plugins"


def test_a_plugin_without_a_body_is_missing():
    with pytest.raises(SessionError, match="trt.plugins:MyGelu") as refused:
        open_oracle(model(PLUGIN.format("Neg")))
    assert refused.value.is_unsupported
    assert "trt.plugins:MyGelu" in str(refused.value)


def test_a_body_for_a_node_that_is_not_there():
    with pytest.raises(SessionError, match="No node named 'other' to attach a function body to") as refused:
        open_oracle(model(PLUGIN.format("Neg")), bodies={"other": GELU})
    assert not refused.value.is_unsupported


def test_nodes_with_bodies_in_a_branch_and_in_a_local_function():
    """Equal bodies are added once, and every caller imports their domain."""
    mini = model(
        """(float[n] x, bool c) => (float[n] y) { y = If(c) <
        then_branch = t () => (float[n] q) { q = trt.plugins.MyGelu(x) },
        else_branch = e () => (float[n] r) { r = my.twice(x) }> }
        <domain: "my", opset_import: ["" : 17, "trt.plugins" : 1]> twice (v) => (w) {
        u = trt.plugins.MyGelu(v); w = trt.plugins.MyGelu(u) }"""
    )
    for taken, wanted in ((True, gelu(X)), (False, gelu(gelu(X)))):
        feeds = {"x": X, "c": np.array(taken)}
        name, _, answers = answer(mini, feeds, bodies=dict.fromkeys(("q", "u", "w"), GELU))
        assert name == OWN_PATTERN
        np.testing.assert_allclose(answers["y"], wanted, atol=1e-6)


def test_a_pattern_of_operators_that_nobody_knows_does_not_make_the_model_wrong():
    """ONNX Runtime then cannot tell types behind them, where the output has none of its own; onnx's evaluator runs."""
    mini = model("(bfloat16[n] x) => (bfloat16[n] y) { y = Add(x, x) }", y="node")
    mini.graph.output[0].ClearField("type")
    body = onnx.parser.parse_function(
        '<domain: "rule", opset_import: ["" : 17, "my" : 1]> f (a, b) => (c) { c = my.plus(a, b) }'
    )
    name, independent, answers = answer(mini, {"x": X.astype(ml_dtypes.bfloat16)}, bodies={"node": body})
    assert (name, independent) == ("onnx's ReferenceEvaluator", True)
    np.testing.assert_allclose(answers["y"].astype(np.float32), 2 * X, rtol=2**-8)


GROUP_NORM = (
    "(float[2, 3, 3, 4] x, float[4] g, float[4] b) => (float[2, 3, 3, 4] y) "
    "{ y = com.microsoft.GroupNorm<groups = 2, activation = 1, epsilon = 0.01>(x, g, b) }"
)
GROUP_NORM_BODY = onnx.parser.parse_function(
    """<domain: "rule", opset_import: ["" : 18]> norm <epsilon: float> (x, g, b) => (y) {
    t = Transpose<perm = [0, 3, 1, 2]>(x)
    two = Constant<value_floats = [1.0, 1.0]>()
    none = Constant<value_floats = [0.0, 0.0]>()
    n = GroupNormalization<num_groups = 2, epsilon: float = @epsilon>(t, two, none)
    l = Transpose<perm = [0, 2, 3, 1]>(n)
    m = Mul(l, g)
    o = Add(m, b)
    s = Sigmoid(o)
    y = Mul(o, s) }"""
)


def group_norm(x, gamma, beta):
    grouped = x.astype(np.float64).reshape(2, 9, 2, 2)
    moved = grouped - grouped.mean((1, 3), keepdims=True)
    y = (moved / np.sqrt(grouped.var((1, 3), keepdims=True) + 0.01)).reshape(x.shape) * gamma + beta
    return y / (1 + np.exp(-y))


@pytest.mark.parametrize("with_body", [True, False])
def test_an_operator_of_onnx_runtimes_without_a_kernel(with_body):
    """By our formula, with or without the rule's pattern: what is independent of the rule says more."""
    rng = np.random.default_rng(1)
    feeds = {"x": rng.normal(size=(2, 3, 3, 4)), "g": rng.normal(size=4), "b": rng.normal(size=4)}
    feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    mini = model(GROUP_NORM, 18, y="node")
    name, independent, answers = answer(mini, feeds, bodies={"node": GROUP_NORM_BODY} if with_body else None)
    assert (name, independent) == ("onnx's ReferenceEvaluator, with surgeon's own formula of GroupNorm", True)
    np.testing.assert_allclose(answers["y"], group_norm(*feeds.values()), rtol=1e-4, atol=1e-5)
    with Float64Reference(mini) as reference:
        np.testing.assert_allclose(reference.run(feeds)["y"], group_norm(*feeds.values()), rtol=1e-6, atol=1e-7)


BF16 = {
    "sum": ("y = Add(x, x)", lambda x: x + x),
    "reduction": ("a = ReduceSum(x); b = Mul(x, x); y = Add(a, b)", lambda x: x.sum() + x * x),
    "erf": ("y = Erf(x)", lambda x: np.vectorize(__import__("math").erf)(x)),
    "gelu": ("y = Gelu(x)", gelu),
    "gelu of ORT": ("y = com.microsoft.Gelu(x)", gelu),
    "matmul": ("y = MatMul(x, x)", lambda x: x @ x),
    "softmax": ("y = Softmax(x)", lambda x: np.exp(x) / np.exp(x).sum()),
}


@pytest.mark.parametrize("form", BF16)
def test_bfloat16_goes_to_the_evaluator(form):
    """It computes each operator in float32 and rounds once: numpy alone would add bfloat16 to 256 at most."""
    text, wanted = BF16[form]
    shape = "" if form == "matmul" else "[n]"
    mini = model(f"(bfloat16[n] x) => (bfloat16{shape} y) {{ {text} }}", 20)
    x = (np.linspace(0.5, 2.5, 600)).astype(ml_dtypes.bfloat16)
    name, independent, answers = answer(mini, {"x": x})
    assert name.startswith("onnx's ReferenceEvaluator")
    assert independent
    assert answers["y"].dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(answers["y"].astype(np.float64), wanted(x.astype(np.float64)), rtol=2**-8, atol=1e-3)


def test_a_plugin_in_bfloat16_is_computed_by_the_rules_own_pattern_under_the_evaluator():
    mini = model("(bfloat16[n] x) => (bfloat16[n] y) { y = trt.plugins.MyGelu(x) }", y="node")
    name, independent, answers = answer(mini, {"x": X.astype(ml_dtypes.bfloat16)}, bodies={"node": GELU})
    assert (name, independent) == (OWN_PATTERN_EVALUATED, False)
    np.testing.assert_allclose(answers["y"].astype(np.float64), gelu(X), rtol=2e-2, atol=1e-2)


def test_an_opset_that_this_onnx_runtime_does_not_know_is_no_fault_of_the_model():
    mini = model("(float[n] x) => (float[n] y) { y = Relu(x) }", onnx.defs.onnx_opset_version())
    name, _, answers = answer(mini, {"x": X})
    assert name in ("ONNX Runtime", "onnx's ReferenceEvaluator")
    np.testing.assert_array_equal(answers["y"], np.maximum(X, 0))


WRONG = {
    "dtypes": "(float[n] x, double[n] z) => (float[n] y) { y = Add(x, z) }",
    "shapes": "(float[2] x, float[3] z) => (float[3] y) { y = Add(x, z) }",
    "an operator that ONNX does not have": "(float[n] x) => (float[n] y) { y = Gleu(x) }",
    "an operator that com.microsoft does not have": "(float[n] x) => (float[n] y) { y = com.microsoft.Gleu(x) }",
    "a lost cast in bfloat16": "(bfloat16[n] x) => (float[n] y) { y = Add(x, x) }",
    "dtypes in bfloat16": "(bfloat16[n] x, float[n] z) => (float[n] y) { y = Add(x, z) }",
    "shapes in bfloat16": "(bfloat16[2] x, bfloat16[3] z) => (bfloat16[3] y) { y = Add(x, z) }",
    "dtypes behind a plugin": "(float[n] x, double[n] z) => (float[n] y) { a = trt.plugins.MyGelu(x); y = Add(a, z) }",
    "dtypes before GroupNorm": "(float[n] x, double[n] g) => (float[n] y) "
    "{ a = Add(x, g); y = com.microsoft.GroupNorm<groups = 2, activation = 0>(a, a, a) }",
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_model_falls_through_to_nobody(fault):
    mini = model(WRONG[fault], a="node")
    bodies = {"node": GELU} if "plugin" in fault else None
    with pytest.raises(SessionError) as refused:
        open_oracle(mini, bodies=bodies)
    assert not refused.value.is_unsupported


# Python implementations
