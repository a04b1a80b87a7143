"""Rules that take apart what other rules write: each fires where the target lacks the op, and spares it elsewhere."""

import onnx
import pytest
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

from surgeon.testing import Case, check_fires, check_spares
from tests.test_lowering import one

RUNS = "ONNX Runtime runs it as it is"


def model(nodes, opset=18):
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    constants = "<float[4] w = {1, 2, 3, 4}>"
    return onnx.parser.parse_model(f"{header} g (float[b, 4] x) => (float[b, 4] y) {constants} {{ {nodes} }}")


EXACT, TANH = model("y = com.microsoft.Gelu(x)"), model("y = com.microsoft.FastGelu(x)")

# fmt: off
FIRES = [
    Case(lower_skip_layer_norm, "a broadcast summand, and the sum", one("SkipLayerNormalization"), target="onnx"),
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

SPARES = [
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


@pytest.mark.parametrize("case", SPARES, ids=str)
def test_spares(case):
    """No byte changes, and the report says why."""
    check_spares(case)
