"""Ops that rules write for one runtime, decomposed for targets that do not support them."""

from surgeon import lowering
from ..activations.bias_fast_gelu import bias_fast_gelu
from ..activations.bias_gelu import bias_gelu
from ..activations.gelu import gelu, gelu_tanh
from ..activations.silu import silu, swish
from ..attention.attention import attention
from ..linear_algebra.fused_matmul import fused_matmul
from ..norms.embed_layer_norm import embed_layer_norm
from ..norms.layer_norm import layer_norm
from ..norms.rms_norm import rms_norm
from ..norms.skip_layer_norm import skip_layer_norm
from ..norms.skip_rms_norm import skip_rms_norm
from ..quantization.dynamic_quantize_matmul import dynamic_quantize_matmul
from ..quantization.matmul_integer_to_float import matmul_integer_to_float
from ..rotary.rotary_embedding import rotary_embedding

lower_skip_layer_norm = lowering(skip_layer_norm, __name__)
lower_skip_rms_norm = lowering(skip_rms_norm, __name__)
lower_embed_layer_norm = lowering(embed_layer_norm, __name__)
lower_layer_norm = lowering(layer_norm, __name__)
lower_rms_norm = lowering(rms_norm, __name__)
lower_bias_gelu = lowering(bias_gelu, __name__)
lower_bias_fast_gelu = lowering(bias_fast_gelu, __name__)
lower_gelu = lowering(gelu, __name__)
lower_gelu_tanh = lowering(gelu_tanh, __name__)
lower_silu = lowering(silu, __name__)
lower_swish = lowering(swish, __name__)
lower_fused_matmul = lowering(fused_matmul, __name__)
lower_dynamic_quantize_matmul = lowering(dynamic_quantize_matmul, __name__)
lower_matmul_integer_to_float = lowering(matmul_integer_to_float, __name__)
lower_attention = lowering(attention, __name__)
lower_rotary_embedding = lowering(rotary_embedding, __name__)
