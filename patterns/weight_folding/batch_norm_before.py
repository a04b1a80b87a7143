"""Batch normalisation at inference before a convolution or a linear layer, folded into its weights and bias."""

import numpy as np

from surgeon import Graph, Tensor, require, rule
from ._channel_weights import conv_of_affine, folded_bias, pads_nothing, rounded_product
from .conv_batch_norm import FoldedBatchNorm, affine_coefficients, batch_norm_of, is_inference


def norm_and_conv(g: Graph, m: FoldedBatchNorm) -> Tensor:
    """conv of the normalised input."""
    return g.conv(batch_norm_of(g, m, m.x), m.w, m.bias, **m.attributes)


def norm_and_linear(g: Graph, m: FoldedBatchNorm) -> Tensor:
    """The same before a Gemm.  The rows of its weights are the channels."""
    return g.gemm(batch_norm_of(g, m, m.x), m.w, m.bias, **m.attributes)


@rule(patterns=[norm_and_conv], conditions=[is_inference, pads_nothing], target="onnx", opset=7)
def batch_norm_before_conv(g: Graph, m: FoldedBatchNorm) -> Tensor:
    """Fold a batch normalisation at inference into the convolution after it, if the convolution does not pad.

    What: weights · k and bias + Σ weights · s, with k = scale / √(variance + ε) and s = shift − mean · k for each input
    channel of the convolution.
    Numerics: rounding only.  Computed in float64 and rounded once to the dtype of the weights.
    """
    factor, offset = affine_coefficients(m)
    return conv_of_affine(g, m, factor, offset)


@rule(patterns=[norm_and_linear], conditions=[is_inference], target="onnx", opset=7)
def batch_norm_before_gemm(g: Graph, m: FoldedBatchNorm) -> Tensor:
    """Fold a batch normalisation at inference into the Gemm after it.

    What: as `batch_norm_before_conv`.  The columns of the input are the channels.
    Numerics: rounding only.  Computed in float64 and rounded once to the dtype of the weights.
    """
    factor, offset = affine_coefficients(m)
    settings = dict(m.attributes)
    require(not settings.get("transA", 0), "the normalised tensor is transposed before the product")
    is_turned = bool(settings.get("transB", 0))
    require(
        m.w.shape[1 if is_turned else 0] == factor.size,
        "the Gemm and the normalisation have different numbers of channels",
    )
    require(settings.pop("beta", 1.0) == 1.0 or m.bias is None, "the Gemm scales its bias (beta)")
    weights = m.w.values.astype(np.float64) if is_turned else m.w.values.astype(np.float64).T
    added = (weights * offset).sum(axis=1) * settings.get("alpha", 1.0)
    made = rounded_product(m.w.values, factor if is_turned else factor.reshape(-1, 1))
    return g.gemm(m.x, g.literal(made), g.literal(folded_bias(m.bias, 1.0, added, m.w.dtype)), **settings)
