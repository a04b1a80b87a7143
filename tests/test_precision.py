"""The reference in float64: against numpy by hand, and against the expectations of onnx's own test cases."""

import math

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto

from surgeon.runtime.kernels.kernel_registry import REFERENCE_KERNELS
from surgeon.runtime.sessions.float64_reference import Float64Reference, to_float64
from surgeon.runtime.sessions.ort_session import OrtSession, SessionError
from surgeon.runtime.sessions.reference_evaluator import EvaluatorSession
from tests.counting import calls
from tests.models import opset
from tests.onnx_cases import LONG_BEFORE_ROUNDING, array_of, cases_of

EVALUATED = "float64 under onnx's ReferenceEvaluator"
UNDER_ORT = "float64 under ONNX Runtime"
erf = np.vectorize(math.erf)
RANDOM = np.random.default_rng(0)


def model(text, version=17, **domains):
    """A mini-model from its ONNX text without header, statements divided by semicolons."""
    return onnx.parser.parse_model(opset(version, **domains) + text.replace(";", "\n"))


def reference(mini, **feeds):
    """What runs a mini-model in float64, and its one answer."""
    with Float64Reference(mini) as one:
        (answer,) = one.run(feeds).values()
        return one.name, answer


def normal(*shape, dtype=np.float32, mean=0.0):
    return (RANDOM.normal(size=shape) + mean).astype(dtype)


def layer_norm(x, gamma, epsilon):
    x, gamma = x.astype(np.float64), gamma.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * gamma


@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_layer_norm_in_float16_with_its_casts(mean):
    """The casts to float32 and back are rounding only; the constant is float32's 0.001."""
    mini = model(
        """(float16[n, 64] x, float16[64] g) => (float16[n, 64] y) {
        a = Cast<to = 1>(x); k = ReduceMean<axes = [-1]>(a); d = Sub(a, k); q = Mul(d, d);
        v = ReduceMean<axes = [-1]>(q); e = Constant<value_float = 0.001>();
        w = Add(v, e); u = Sqrt(w); o = Div(d, u); z = Cast<to = 10>(o);
        y = Mul(z, g) }"""
    )
    x, gamma = normal(3, 64, dtype=np.float16, mean=mean), normal(64, dtype=np.float16)
    name, answer = reference(mini, x=x, g=gamma)
    assert name == UNDER_ORT
    assert answer.dtype == np.float64
    np.testing.assert_allclose(answer, layer_norm(x, gamma, float(np.float32(0.001))), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_layer_normalization(dtype):
    kind = {"float32": "float", "float16": "float16", "bfloat16": "bfloat16"}[np.dtype(dtype).name]
    mini = model(f"({kind}[n, 64] x, {kind}[64] g) => ({kind}[n, 64] y) {{ y = LayerNormalization(x, g) }}")
    x, gamma = normal(3, 64, dtype=dtype), normal(64, dtype=dtype)
    _, answer = reference(mini, x=x, g=gamma)
    np.testing.assert_allclose(answer, layer_norm(x, gamma, float(np.float32(1e-5))), rtol=1e-11, atol=1e-13)


X = np.concatenate([normal(500), [0.0, -0.0, 1e4, -1e4, 1e-40, np.inf, np.nan]]).astype(np.float32)
X64 = X.astype(np.float64)
with np.errstate(all="ignore"):
    EXACT = 0.5 * X64 * (1 + erf(X64 / math.sqrt(2)))
    TANH = 0.5 * X64 * (1 + np.tanh(math.sqrt(2 / math.pi) * (X64 + 0.044715 * X64**3)))
    QUICK = X64 / (1 + np.exp(-1.5 * X64))
FORMS = {
    "com.microsoft": ("com.microsoft.Gelu(x)", EXACT),
    "onnx": ("Gelu(x)", EXACT),
    "onnx, tanh": ('Gelu<approximate = "tanh">(x)', TANH),
    "fast": ("com.microsoft.FastGelu(x)", TANH),
    "fast with bias": ("com.microsoft.FastGelu(x, z)", TANH),
    "bias": ("com.microsoft.BiasGelu(x, z)", EXACT),
    "quick": ("com.microsoft.QuickGelu<alpha = 1.5>(x)", QUICK),
}


@pytest.mark.parametrize("form", FORMS)
def test_gelu_as_one_operator(form):
    """ONNX Runtime and onnx hold the constants of their function bodies as float32; the reference does not."""
    text, wanted = FORMS[form]
    _, answer = reference(model(f"(float[n] x) => (float[n] y) <float[1] z = {{0}}> {{ y = {text} }}", 20), x=X)
    finite = np.isfinite(X64)
    np.testing.assert_allclose(answer[finite], wanted[finite], rtol=1e-14, atol=1e-300)
    assert np.isnan(answer[-1])


def test_gelu_decomposed_with_its_own_constant():
    """The region's constant is not the square root of two but float32's."""
    mini = model(
        """(float[n] x) => (float[n] y) <float s = {1.4142135}, float one = {1}, float half = {0.5}>
        { a = Div(x, s); b = Erf(a); c = Add(b, one); d = Mul(x, half); y = Mul(d, c) }"""
    )
    name, answer = reference(mini, x=X)
    assert name == EVALUATED  # ONNX Runtime has no Erf in float64, and onnx's own rounds to float32
    finite = np.isfinite(X64)
    wanted = 0.5 * X64 * (1 + erf(X64 / np.float64(np.float32(1.4142135))))
    np.testing.assert_array_equal(answer[finite], wanted[finite])


def test_a_small_region_is_prepared_once():
    """A run takes fewer calls than making the region wide and opening it, which no further run does again."""
    mini = model("(float[n] x) => (float[n] y) { y = com.microsoft.Gelu(x) }")
    with Float64Reference(mini) as one:
        one.run({"x": X})
        again = calls(lambda: one.run({"x": X}))
    opened: list[Float64Reference] = []
    opening = calls(lambda: opened.append(Float64Reference(mini)))
    opened[0].__exit__(None, None, None)
    assert again < opening


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(("version", "axis"), [(17, -1), (17, 1), (11, 1), (11, 2)])
@pytest.mark.parametrize("rest", ["", "z = Erf(y0)"])
def test_softmax(op, version, axis, rest):
    """Before opset 13 all axes from the given one on are one; with an Erf beside it, it runs under the evaluator."""
    x = normal(2, 3, 4) * 100
    text = f"(float[a, b, c] x) => (float[a, b, c] y) {{ y0 = {op}<axis = {axis}>(x); {rest}; y = Identity(y0) }}"
    _, answer = reference(model(text, version), x=x)
    axes = tuple(range(axis, 3)) if version < 13 else axis
    moved = x.astype(np.float64) - x.max(axis=axes, keepdims=True)
    wanted = moved - np.log(np.exp(moved).sum(axis=axes, keepdims=True))
    is_log = op == "LogSoftmax"  # of a sum near 1, whose last place is 2^-52
    expected, least = (wanted, 1e-15) if is_log else (np.exp(wanted), 1e-300)
    np.testing.assert_allclose(answer, expected, rtol=1e-12, atol=least)


def test_constant_of_shape_and_constants_of_all_kinds():
    mini = model(
        """(float[n] x) => (float[n] y) { s = Shape(x); z = ConstantOfShape(s);
        w = ConstantOfShape<value = float[1] {0.1}>(s); a = Constant<value_float = 0.1>();
        b = Constant<value_floats = [0.1]>(); c = Constant<value = float[1] {0.1}>();
        p = Sum(x, z, w, a, b, c); y = CastLike(p, z) }"""
    )
    name, answer = reference(mini, x=X)
    assert name == UNDER_ORT
    np.testing.assert_allclose(answer, X64 + 4 * np.float64(np.float32(0.1)), rtol=1e-15)


@pytest.mark.parametrize("taken", [True, False])
def test_the_bodies_of_if(taken):
    mini = model(
        """(float16[n] x, bool c) => (float16[n] y) { y = If(c) <
        then_branch = t () => (float16[n] q) { a = Cast<to = 1>(x); b = Exp(a); q = Cast<to = 10>(b) },
        else_branch = e () => (float16[n] r)
        { h = Constant<value_float = 0.1>(); k = CastLike(h, x); r = Mul(x, k) }> }"""
    )
    x = normal(20, dtype=np.float16)
    _, answer = reference(mini, x=x, c=np.array(taken))
    x = x.astype(np.float64)
    np.testing.assert_allclose(answer, np.exp(x) if taken else x * float(np.float32(0.1)), rtol=1e-15)


def test_the_body_of_a_loop():
    mini = model(
        """(float[n] x) => (float[n] y) <int64 m = {3}, bool go = {1}> { y = Loop(m, go, x) <
        body = b (int64 i, bool c, float[n] v) => (bool d, float[n] w) { d = Identity(c);
        h = Constant<value_float = 0.1>(); w = Mul(v, h) }> }"""
    )
    _, answer = reference(mini, x=X)
    np.testing.assert_allclose(answer, X64 * float(np.float32(0.1)) ** 3, rtol=1e-15)


def test_a_local_function_with_a_default_and_an_omitted_input():
    mini = model(
        """(float[n] x) => (float[n] y) { a = my.scale(x); y = my.scale<by: float = 0.3>(a, "") }
        <domain: "my", opset_import: ["": 17]> scale <by: float = 0.1> (x, most) => (y)
        { b = Constant<value_float: float = @by>(); c = Mul(x, b); y = Clip(c, "", most) }"""
    )
    _, answer = reference(mini, x=X[:500])
    np.testing.assert_allclose(
        answer, X64[:500] * np.float64(np.float32(0.1)) * np.float64(np.float32(0.3)), rtol=1e-15
    )


def test_integers_stay():
    mini = model(
        "(float[n] x) => (int64 y, int64[n] z) { y = ArgMax<keepdims = 0>(x); a = Cast<to = 7>(x); z = Neg(a) }"
    )
    with Float64Reference(mini) as one:
        answers = one.run({"x": np.array([1.5, 7.25, -3.0], dtype=np.float32)})
    assert [array.dtype for array in answers.values()] == [np.int64, np.int64]
    assert answers["y"] == 1
    assert answers["z"].tolist() == [-1, -7, 3]


def test_every_float_is_widened():
    """Inputs, outputs, initializers and attributes, of float8 too; integers are not."""
    mini = model(
        """(float16[n] x, int32[n] i) => (float16[n] y) <bfloat16[2] b = {1, 2}> {
        e = EyeLike<dtype = 10>(m); s = SequenceEmpty(); w = HannWindow(k); y = Cast<to = 16>(x) }"""
    )
    mini.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array([0.5], dtype=ml_dtypes.float8_e4m3fn), name="f8")
    )
    wide = to_float64(mini)
    kinds = [port.type.tensor_type.elem_type for port in (*wide.graph.input, *wide.graph.output)]
    assert kinds == [TensorProto.DOUBLE, TensorProto.INT32, TensorProto.DOUBLE]
    assert {tensor.data_type for tensor in wide.graph.initializer} == {TensorProto.DOUBLE}
    assert onnx.numpy_helper.to_array(wide.graph.initializer[1]).tolist() == [0.5]
    assert [node.attribute[0].i for node in wide.graph.node] == [TensorProto.DOUBLE] * 4
    assert mini.graph.node[0].attribute[0].i == TensorProto.FLOAT16


@pytest.mark.parametrize(
    "text",
    [
        "(float[n] x) => (uint8[n] y) <float s = {0.1}, uint8 z = {3}> { y = QuantizeLinear(x, s, z) }",
        "(float[n] x) => (float[n] y) { a = Cast<to = 17>(x); y = Cast<to = 1>(a) }",
        "(float[n] x) => (float[n] y) { y = RandomNormalLike(x) }",
        "(float[n, m] x) => (float[n, m] y) { y = ai.onnx.ml.Normalizer(x) }",
    ],
)
def test_what_has_no_form_in_float64(text):
    """What rounds by design, is random, or answers in float32 alone: the answer is None, and an error that says so."""
    mini = model(text, 19, **{"ai.onnx.ml": 3})
    assert to_float64(mini) is None
    with pytest.raises(SessionError, match="rounds by design, is random, or has no float64 version") as refused:
        Float64Reference(mini)
    assert refused.value.is_unsupported


def test_dequantising_is_not_rounding():
    """In float64, along an axis, where onnx's own multiplies in float32."""
    text = """(uint8[2, 3] x, float[3] s) => (float[2, 3] y) <uint8[3] z = {1, 2, 3}>
    { y = DequantizeLinear<axis = 1>(x, s, z) }"""
    x, scale = np.array([[0, 255, 7], [1, 2, 3]], dtype=np.uint8), normal(3)
    _, answer = reference(model(text), x=x, s=scale)
    np.testing.assert_array_equal(answer, (x.astype(np.float64) - [1, 2, 3]) * scale.astype(np.float64))


def test_kernels_that_refuse_only_when_they_run():
    """ONNX Runtime lists an LSTM in float64, and says at the first run that it has none."""
    text = """(float[s, b, 2] x) => (float[s, 1, b, 3] y) { y = LSTM<hidden_size = 3>(x, w, r) }"""
    mini = model(text)
    weights = {"w": normal(1, 12, 2), "r": normal(1, 12, 3)}
    mini.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    x = normal(4, 2, 2)
    name, answer = reference(mini, x=x)
    assert name == EVALUATED
    with OrtSession(mini) as session:
        np.testing.assert_allclose(answer, session.run({"x": x})["y"], atol=1e-6)


def test_every_engine_is_asked_until_one_answers(monkeypatch):
    """The one that answers is kept, those that refused are closed."""
    from surgeon.runtime.sessions import float64_reference

    closed = []

    class Engine:
        def __init__(self, name):
            self.name = name

        def run(self, feeds):
            if self.name != "third":
                raise SessionError(f"the {self.name} refuses")
            return {"y": feeds["x"] + 1}

        def close(self):
            closed.append(self.name)

    monkeypatch.setattr(
        float64_reference,
        "_wide_models",
        lambda *_, **__: iter([Engine(name) for name in ("first", "second", "third")]),
    )
    with Float64Reference(model("(float[n] x) => (float[n] y) { y = Neg(x) }")) as one:
        assert one.run({"x": X[:1]})["y"] == X64[:1] + 1
        assert one.name == "third"
        assert sorted(closed) == ["first", "second"]


FUSED = {
    "skip": "y, , , z = com.microsoft.SkipLayerNormalization<epsilon = 0.01>(x, s, g, b, c)",
    "skip simplified": "y, , , z = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.01>(x, s, g, c)",
    "simplified": "y = SimplifiedLayerNormalization<epsilon = 0.01>(x, g); z = Identity(s)",
    "group": "t = GroupNormalization<num_groups = 2, epsilon = 0.01>(x, d, d); y = Mul(t, g); z = Identity(s)",
    "quick": "y = com.microsoft.QuickGelu(x); z = Identity(s)",
    "matmul": "t = com.microsoft.FusedMatMul<transB = 1, alpha = 0.5>(x, s); y = MatMul(t, x); z = Identity(s)",
}


@pytest.mark.parametrize("form", FUSED)
def test_formulas_against_kernels(form):
    """ONNX Runtime's float32 kernels differ from the formulas in float64 by rounding alone."""
    mini = model(
        f"""(float[2, 4, 6] x, float[2, 4, 6] s, float[6] g, float[6] b, float[6] c, float[2] d)
        => (float[2, 4, 6] y, float[2, 4, 6] z) {{ {FUSED[form]} }}""",
        20 if form == "group" else 17,
    )
    feeds = {"x": normal(2, 4, 6), "s": normal(2, 4, 6), "g": normal(6), "b": normal(6), "c": normal(6), "d": normal(2)}
    with OrtSession(mini) as session, Float64Reference(mini) as one, EvaluatorSession(mini) as evaluated:
        kernels, formulas, narrow = session.run(feeds), one.run(feeds), evaluated.run(feeds)
    for name, array in kernels.items():
        np.testing.assert_allclose(formulas[name], array, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(narrow[name], array, rtol=1e-5, atol=1e-5)
        assert narrow[name].dtype == np.float32


@pytest.mark.parametrize("silu", [0, 1])
def test_the_formula_of_a_group_norm_with_channels_last(silu):
    """Against the definition, one group after the other."""
    x, gamma, beta = normal(2, 5, 3, 8).astype(np.float64), normal(8), normal(8)
    made = REFERENCE_KERNELS["com.microsoft", "GroupNorm"](x, gamma, beta, groups=4, activation=silu, epsilon=0.01)
    wanted = np.empty_like(x)
    for image, group in np.ndindex(2, 4):
        part = x[image, :, :, 2 * group : 2 * group + 2]
        wanted[image, :, :, 2 * group : 2 * group + 2] = (part - part.mean()) / np.sqrt(part.var() + 0.01)
    wanted = wanted * gamma + beta
    wanted = wanted / (1 + np.exp(-wanted)) if silu else wanted
    np.testing.assert_allclose(made, wanted, rtol=1e-12, atol=1e-12)


def test_the_logarithm_of_a_sum_of_powers_neither_overflows_nor_loses_rows_that_are_infinite():
    """Rows beyond exp's range and rows of infinities, by either way to name axes."""
    inf = np.inf
    x = np.array([[1000.0, 1000.0], [-1000.0, -1000.0], [-inf, -inf], [inf, 0.0], [inf, inf], [0.0, -inf]])
    wanted = np.array([1000 + np.log(2), np.log(2) - 1000, -inf, inf, inf, 0.0])
    for version, node in (
        (28, "ReduceLogSumExp<keepdims = 0>(x, axes)"),
        (17, "ReduceLogSumExp<axes = [1], keepdims = 0>(x)"),
    ):
        mini = model(f"(double[n, 2] x) => (double[n] y) <int64[1] axes = {{-1}}> {{ y = {node} }}", version)
        ran, answer = reference(mini, x=x)
        assert ran == EVALUATED
        np.testing.assert_allclose(answer, wanted, rtol=1e-12)
    formula = REFERENCE_KERNELS["", "ReduceLogSumExp"]
    assert formula(x, [], noop_with_empty_axes=1) is x
    np.testing.assert_allclose(formula(x[:2]), [[1000 + np.log(2)]])


@pytest.mark.parametrize(("groups", "channels"), [(3, 8), (0, 8), (4, 4), (4, 1)])
def test_what_is_no_group_norm_is_refused(groups, channels):
    """8 channels in 3 groups, or with vectors of another length, which numpy would broadcast."""
    vector = normal(channels)
    for op, settings in (("com.microsoft", {"groups": groups}), ("", {"num_groups": groups})):
        x = normal(2, 5, 3, 8) if op else normal(2, 8, 5, 3)
        formula = REFERENCE_KERNELS[op, "GroupNorm" if op else "GroupNormalization"]
        with pytest.raises(ValueError, match="groups|expected"):
            formula(x, vector, vector, **settings, **({"activation": 0} if op else {}))


COVERED = (
    *("Add", "Conv", "Gemm", "LayerNormalization", "RMSNormalization", "GroupNormalization", "Resize", "ReduceMean"),
    *(
        "Softmax",
        "LogSoftmax",
        "ReduceLogSumExp",
        "Mish",
        "HardSwish",
        "Swish",
        "Attention",
        "DequantizeLinear",
        "Scan",
        "Loop",
        "Einsum",
    ),
    *("Cast", "MeanVarianceNormalization", "BatchNormalization", "Where", "LSTM", "Gather", "TopK", "RotaryEmbedding"),
    *("ConvTranspose", "MaxPool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "RNN", "GRU"),
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of onnx's cases as they are made
@pytest.mark.parametrize("op", COVERED)
def test_against_the_cases_of_onnx(op):
    """In every case of an operator that has a form in float64, both engines give what onnx expects."""
    seen = 0
    for case in cases_of(op):
        given, wanted = ([array_of(item) for item in side] for side in case.data_sets[0])
        if case.model.opset_import[0].version < 9 or case.name in LONG_BEFORE_ROUNDING:
            continue  # Scan-8 is another op, which nothing here runs
        if to_float64(case.model) is None or not all(isinstance(item, np.ndarray) for item in (*given, *wanted)):
            continue
        if any(array.dtype.kind in "OUS" for array in wanted):
            continue
        feeds = {port.name: array for port, array in zip(case.model.graph.input, given, strict=True)}
        for engine in (Float64Reference, EvaluatorSession):
            with engine(case.model) as one:
                answers = list(one.run(feeds).values())
            for answer, expected in zip(answers, wanted, strict=True):
                loose = {"float16": 2e-2, "bfloat16": 2e-1}.get(expected.dtype.name, 1e-4)
                numbers = (answer.astype(np.float64), expected.astype(np.float64))
                np.testing.assert_allclose(*numbers, rtol=loose, atol=loose / 10, err_msg=case.name)
                assert engine is Float64Reference or answer.dtype == expected.dtype, case.name
        seen += 1
    assert seen
