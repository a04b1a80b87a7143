"""A residual before a normalisation, in the form that ONNX Runtime runs fastest on a CPU (measured for float32)."""

from surgeon import Graph, Tensor, rule
from . import skip_layer_norm, skip_rms_norm
from ._residual import Residual, is_added


@rule(patterns=[skip_layer_norm.with_sum], conditions=[is_added], dtypes="float32", ep="cpu", form_patterns=[])
def residual_sum(g: Graph, m: Residual) -> tuple[Tensor, Tensor]:
    """Write the residual before a layer normalisation as Sum, so that ONNX Runtime does not fuse the two on a CPU.

    What: LayerNormalization(Sum(x, skip, bias)).  On loading a model, ONNX Runtime fuses an Add before a
    LayerNormalization into SkipLayerNormalization.  Its CPU kernel takes eight times as long as the two nodes (1.31,
    128 rows of 768 numbers: 431 µs and 55 µs).  ONNX Runtime does not fuse a Sum.  For other execution providers, use
    skip_layer_norm.
    Numerics: rounding only.
    """
    total = g.sum(m.x, m.skip) if m.bias is None else g.sum(m.x, m.skip, m.bias)
    return g.layer_normalization(total, m.gamma, m.beta, axis=-1, epsilon=m.epsilon), total


@rule(patterns=[skip_rms_norm.with_sum], conditions=[is_added], dtypes="float32", ep="cpu", form_patterns=[])
def residual_rms_sum(g: Graph, m: Residual) -> tuple[Tensor, Tensor]:
    """Write the residual before an RMSNorm as Sum.  On a CPU this is faster than one fused node.

    What: SimplifiedLayerNormalization(Sum(x, skip, bias)), or RMSNormalization if the graph has that op.  The CPU
    kernel of SkipSimplifiedLayerNormalization takes twice as long (ONNX Runtime 1.31, 128 rows of 768 numbers: 71 µs
    and 37 µs).  For other execution providers, use skip_rms_norm.
    Numerics: rounding only.
    """
    total = g.sum(m.x, m.skip) if m.bias is None else g.sum(m.x, m.skip, m.bias)
    is_standard = any(node.op == "RMSNormalization" for node in m.match.nodes)
    normalised = g.rms_normalization if is_standard else g.simplified_layer_normalization
    return normalised(total, m.gamma, axis=-1, epsilon=m.epsilon), total
