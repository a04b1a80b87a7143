"""Rules that take apart what other rules write: each fires where the target lacks the op, and nowhere else."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from surgeon.patterns.lowering.lowering import (
    lower_attention,
    lower_bias_fast_gelu,
    lower_bias_gelu,
    lower_dynamic_quantize_matmul,
    lower_embed_layer_norm,
    lower_fused_matmul,
    lower_gelu,
    lower_gelu_tanh,
    lower_layer_norm,
    lower_matmul_integer_to_float,
    lower_rms_norm,
    lower_rotary_embedding,
    lower_silu,
    lower_skip_layer_norm,
    lower_skip_rms_norm,
    lower_swish,
)

from surgeon import rewrite
from surgeon.runtime.sessions.ort_session import OrtSession
from surgeon.testing import Case, check_fires, check_spares
from tests.test_lowering import one

RUNS = "ONNX Runtime runs it as it is"


def model(nodes, opset=18):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    constants = "<float[4] w = {1, 2, 3, 4}>"
    return onnx.parser.parse_model(f"{header} g (float[b, 4] x) => (float[b, 4] y) {constants} {{ {nodes} }}")


def half(op, vectors, total=""):
    """A norm of a sum in half precision, of which the sum may be given out."""
    header = '<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]> g'
    constants = "float[4] wide = {1, 2, 3, 4}, float[4] other = {0.5, 2, -3, 1}"
    made, more = (f', "", "", {total}', f", float16[b, s, 4] {total}") if total else ("", "")
    return onnx.parser.parse_model(
        f"{header} (float16[b, s, 4] x, float16[b, s, 4] z) => (float16[b, s, 4] y{more}) <{constants}> "
        f"{{ w = Cast<to = 10>(wide) c = Cast<to = 10>(other) y{made} = com.microsoft.{op}(x, z, {vectors}) }}"
    )


EXACT, TANH = model("y = com.microsoft.Gelu(x)"), model("y = com.microsoft.FastGelu(x)")

# fmt: off
FIRES = [
    Case(lower_skip_layer_norm, "a broadcast summand, and the sum", one("SkipLayerNormalization"), target="onnx"),
    Case(lower_skip_layer_norm, "half precision, no bias, and the sum", target="onnx",
         model=half("SkipLayerNormalization", "w, c", "t")),
    Case(lower_skip_rms_norm, "half precision, and the sum", target="onnx",
         model=half("SkipSimplifiedLayerNormalization", "w, c", "t")),
    Case(lower_skip_rms_norm, "no bias", one("SkipSimplifiedLayerNormalization"), target="onnx"),
    Case(lower_embed_layer_norm, "a mask, counts and the sum", one("EmbedLayerNormalization"), target="onnx"),
    Case(lower_layer_norm, "before ONNX had it", model("y = LayerNormalization(x, w)", 16), target="onnx"),
    Case(lower_rms_norm, "an op that is in no standard", one("SimplifiedLayerNormalization"), target="onnx"),
    Case(lower_bias_gelu, "a vector", one("BiasGelu"), target="onnx"),
    Case(lower_bias_fast_gelu, "with a bias", one("FastGelu"), target="onnx"),
    Case(lower_gelu, "before ONNX had one", EXACT, target="onnx"),
    Case(lower_gelu_tanh, "before ONNX had its attribute", TANH, target="onnx"),
    Case(lower_silu, "α is 1", model("y = com.microsoft.QuickGelu<alpha = 1.0>(x)"), target="onnx"),
    Case(lower_swish, "the default α, 1, and ½", one("QuickGelu"), target="onnx", sites=3),
    Case(lower_fused_matmul, "turned and scaled", one("FusedMatMul"), target="onnx"),
    Case(lower_dynamic_quantize_matmul, "a zero point and a bias", one("DynamicQuantizeMatMul"), target="onnx"),
    Case(lower_matmul_integer_to_float, "unsigned by signed", one("MatMulIntegerToFloat"), target="onnx"),
    Case(lower_attention, "behind a past", one("MultiHeadAttention"), target="onnx"),
    Case(lower_rotary_embedding, "heads side by side", one("RotaryEmbedding"), target="onnx"),
]

NEGATIVES = [
    Case(lower_skip_layer_norm, "LayerNorm stays", one("SkipLayerNormalization"), why=RUNS),
    Case(lower_skip_rms_norm, "RMSNorm stays", one("SkipSimplifiedLayerNormalization"), why=RUNS),
    Case(lower_embed_layer_norm, "embeddings stay", one("EmbedLayerNormalization"), why=RUNS),
    Case(lower_layer_norm, "ONNX has it", model("y = LayerNormalization(x, w)"), target="onnx", why="ONNX runs it"),
    Case(lower_rms_norm, "an op in no standard stays", one("SimplifiedLayerNormalization"), why=RUNS),
    Case(lower_bias_gelu, "a bias stays", one("BiasGelu"), why=RUNS),
    Case(lower_bias_fast_gelu, "the bias of another", one("BiasGelu"), target="onnx", why="no com.microsoft::FastGelu"),
    Case(lower_gelu, "the tanh approximation", TANH, target="onnx", why="no com.microsoft::Gelu"),
    Case(lower_gelu_tanh, "the exact one", EXACT, target="onnx", why="found com.microsoft::Gelu"),
    Case(lower_silu, "another α", model("y = com.microsoft.QuickGelu<alpha = 1.5>(x)"), target="onnx", why="alpha"),
    Case(lower_swish, "it stays", one("QuickGelu"), why=RUNS),
    Case(lower_fused_matmul, "the product stays", one("FusedMatMul"), why=RUNS),
    Case(lower_dynamic_quantize_matmul, "rounded inputs stay", one("DynamicQuantizeMatMul"), why=RUNS),
    Case(lower_matmul_integer_to_float, "integers stay", one("MatMulIntegerToFloat"), why=RUNS),
    Case(lower_attention, "attention stays", one("MultiHeadAttention"), why=RUNS),
    Case(lower_rotary_embedding, "rotation stays", one("RotaryEmbedding"), why=RUNS),
]
# fmt: on


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case):
    """The op is in parts then, and ONNX Runtime agrees."""
    check_fires(case)


@pytest.mark.parametrize("case", NEGATIVES, ids=str)
def test_does_not_fire(case):
    """No byte changes, and the report says why."""
    check_spares(case)


@pytest.mark.parametrize(
    ("rule", "op", "vectors"),
    [
        (lower_skip_layer_norm, "SkipLayerNormalization", "w, c, c"),
        (lower_skip_layer_norm, "SkipLayerNormalization", "w"),
        (lower_skip_rms_norm, "SkipSimplifiedLayerNormalization", "w, c"),
        (lower_skip_rms_norm, "SkipSimplifiedLayerNormalization", "w"),
    ],
)
def test_half_precision_is_added_in_float32(rule, op, vectors):
    """As the kernel does: sums overflow in half precision, and small differences beside large numbers are lost."""
    before = half(op, vectors)
    after, _ = rewrite(before, rule, target="onnx", check="none")
    given = {
        "x": np.array([[[6e4, 6e4, 1, 2], [2048, 2048, 2048, 2048]]], np.float16),
        "z": np.array([[[6e4, 3e4, 2, 1], [0.25, 0.5, 0.75, 0.125]]], np.float16),
    }
    with OrtSession(before) as session:
        wanted = session.run(given)["y"]
    with np.errstate(over="ignore", invalid="ignore"):
        made = ReferenceEvaluator(after).run(["y"], given)[0]  # ONNX Runtime would keep float32 between its nodes
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(made, wanted, rtol=2e-3, atol=2e-3)
