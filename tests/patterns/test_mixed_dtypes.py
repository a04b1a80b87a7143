"""Layer norms and scales of two dtypes: what fires and what does not."""

import numpy as np
import onnxruntime as ort
import pytest
from surgeon.patterns.activations.sigmoid import sigmoid
from surgeon.patterns.norms.layer_norm import layer_norm
from surgeon.patterns.placeholders.mixed_dtypes import mixed_dtype_layer_norm, mixed_dtype_scale

import surgeon
from surgeon.testing import Case, check_fires, check_spares
from tests.models import ops
from tests.patterns.tensorrt import faults, graph

HERE = "(float[n, 4] x) => (float[n, 4] y)"
HALF = "float16[4] s = {15360, 16384, 14336, 15360}, float16[4] b = {0, 15360, 0, 48128}"  # as the bits have it
TWO = "float[n, 4] x, float16 c"
WHOLE = "float[4] s = {1, 2, 3, 4}, float[4] b = {0, 1, 0, -1}"

# fmt: off
FIRES = [
    Case(mixed_dtype_layer_norm, "a scale and a bias", graph("y = LayerNormalization<epsilon = 0.1>(x, s, b)", HERE,
         HALF),
         target="tensorrt", check=False),
    Case(mixed_dtype_layer_norm, "a scale alone", graph("y = LayerNormalization<axis = -1>(x, s)", HERE, HALF),
         target="tensorrt", check=False),
    Case(mixed_dtype_scale, "queries by a root", graph("r = Sqrt(c) y = Mul(x, r)", f"({TWO}) => (float[n, 4] y)"),
         check=False),
]
# Half precision, with one tensor of float32.  16384 is 2, and 4096 is 2⁻¹¹.
NORM = """m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Pow(d, two) v = ReduceMean<axes = [-1]>(q) w = Add(v, e)
    r = Sqrt(w) n = Div(d, r) t = Mul(n, s) y = Add(t, b)"""
HALF_HERE = HERE.replace("float", "float16")
NEGATIVES = [
    Case(layer_norm, "an epsilon of float32 in half precision", why="must have the same dtype", model=graph(
        NORM, HALF_HERE, f"float16 two = {{16384}}, float e = {{1e-5}}, {HALF}")),
    Case(layer_norm, "an exponent and an epsilon of float32", why="must have the same dtype", model=graph(
        NORM, HALF_HERE, f"float two = {{2}}, float e = {{1e-5}}, {HALF}")),
    Case(sigmoid, "a one of float32 in half precision", why="must have the same dtype", model=graph(
        "n = Neg(x) e = Exp(n) a = Add(e, one) y = Div(one, a)", HALF_HERE, "float one = {1}")),
    Case(mixed_dtype_layer_norm, "one dtype", graph("y = LayerNormalization(x, s, b)", HERE, WHOLE), target="tensorrt",
         why="have the dtype of its input"),
    Case(mixed_dtype_layer_norm, "all of half precision", target="tensorrt", why="its input is not float32",
         model=graph("y = LayerNormalization(x, s, b)", "(float16[n, 4] x) => (float16[n, 4] y)", HALF)),
    Case(mixed_dtype_scale, "one dtype", graph("r = Sqrt(c) y = Mul(x, r)",
         "(float[n, 4] x, float c) => (float[n, 4] y)"),
         why="the scale must be half precision"),
    Case(mixed_dtype_scale, "all of half precision", why="the scaled tensor must be float32",
         model=graph("r = Sqrt(c) y = Mul(x, r)", "(float16[n, 4] x, float16 c) => (float16[n, 4] y)")),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    check_spares(case)


def test_half_precision_beside_float32_still_matches():
    """A Pow takes an exponent of any dtype, and a Cast gives another."""
    model = graph(NORM, HALF_HERE, f"float two = {{2}}, float16 e = {{4096}}, {HALF}")
    _, report = surgeon.rewrite(model, [layer_norm])
    assert (report.outcome, len(report.sites)) == ("proved", 1)


def test_what_nobody_ran_runs_then():
    """Neither ONNX Runtime nor TensorRT takes two dtypes, so the report says that nothing is proved."""
    model = FIRES[0].model
    with pytest.raises(Exception, match="different types"):
        ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    made, report = surgeon.rewrite(model, "tensorrt", target="tensorrt")
    assert report.outcome == "unproved"
    assert not faults(made)
    x = np.float32([[1, 2, 4, -3], [0, 5, 5, 1]])
    (found,) = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 0.1)
    np.testing.assert_allclose(found, normal * [1, 2, 0.5, 1] + [0, 1, 0, -1], rtol=1e-5, atol=1e-6)


def test_an_attention_whose_mask_made_all_behind_it_float32_is_loaded():
    """As TorchScript exports norms of heads in half precision behind a mask of truths; no inner dtype is stated."""
    body = """n = LayerNormalization(x, s, b) z = Cast<to = 10>(c) r = Sqrt(z) q = Mul(n, r)
        t = Transpose<perm = [0, 1, 3, 2]>(n) k = Mul(t, r) w = MatMul(q, k) p = Softmax(w) y = MatMul(p, n)"""
    model = graph(body, "(float[n, 2, t, 4] x) => (float[n, 2, t, 4] y)", f"float c = {{0.25}}, {HALF}")
    made, report = surgeon.rewrite(model, "ort")
    assert report.outcome == "unproved"
    assert not report.refused
    assert "MultiHeadAttention" in ops(made.graph)
    ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
