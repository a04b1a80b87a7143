"""Batch normalisation (Ioffe and Szegedy, arXiv:1502.03167) at inference, after a convolution or a linear layer."""

import numpy as np

from surgeon import Constant, Graph, Tensor, require, rule
from ._channel_weights import Array, WeightedOp, conv, folded_bias, matched_conv, rounded_product, with_scaled_channels


class FoldedBatchNorm(WeightedOp):
    """A convolution or a linear layer, and the constants of the normalisation after it. momentum has no effect."""

    scale: Constant
    shift: Constant
    mean: Constant
    variance: Constant
    epsilon: float
    momentum: float


def batch_norm_of(g: Graph, m: FoldedBatchNorm, made: Tensor) -> Tensor:
    """(made − mean) / √(variance + ε) · scale + shift.  Each is a vector over channels."""
    vectors = m.scale, m.shift, m.mean, m.variance
    return g.batch_normalization(made, *vectors, epsilon=m.epsilon, momentum=m.momentum)


def conv_and_norm(g: Graph, m: FoldedBatchNorm) -> Tensor:
    """(conv(x) − mean) / √(variance + ε) · scale + shift."""
    return batch_norm_of(g, m, conv(g, m))


def linear_and_norm(g: Graph, m: FoldedBatchNorm) -> Tensor:
    """The same after a Gemm, whose columns are the channels."""
    return batch_norm_of(g, m, g.gemm(m.x, m.w, m.bias, **m.attributes))


def is_inference(m: FoldedBatchNorm) -> None:
    """Refuse training mode: before opset 14, further outputs mean training (ONNX spec, BatchNormalization-9)."""
    norms = [node for node in m.match.nodes if node.op == "BatchNormalization"]
    require(all(sum(map(bool, node.outputs)) == 1 for node in norms), "the normalisation is in training mode")


def affine_coefficients(m: FoldedBatchNorm) -> tuple[Array, Array]:
    """Return (factor, offset), in float64: the normalisation is x · factor + offset."""
    vectors = (m.scale, m.shift, m.mean, m.variance)
    require(all(vector.rank == 1 for vector in vectors), "scale, bias, mean and variance must be vectors")
    require(len({vector.shape for vector in vectors}) == 1, "scale, bias, mean and variance must have the same length")
    scale, shift, mean, variance = (vector.values.astype(np.float64) for vector in vectors)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + m.epsilon)
        return factor, shift - mean * factor


@rule(patterns=[conv_and_norm], conditions=[is_inference], target="onnx", opset=7)
def conv_batch_norm(g: Graph, m: FoldedBatchNorm) -> Tensor:
    """Fold a batch normalisation at inference into the convolution before it.

    What: weights · k and (bias − mean) · k + shift, with k = scale / √(variance + ε), computed from the constants.
    Numerics: rounding only.  Computed in float64 and rounded once to the dtype of the weights.
    """
    op = matched_conv(m.match)
    factor, offset = affine_coefficients(m)
    weights = g.literal(with_scaled_channels(op, m.w, factor, m.attributes.get("group", 1)))
    bias = g.literal(folded_bias(m.bias, factor, offset, m.w.dtype))
    made: Tensor = g.op(op, m.x, weights, bias, **m.attributes)
    return made


@rule(patterns=[linear_and_norm], conditions=[is_inference], target="onnx", opset=7)
def gemm_batch_norm(g: Graph, m: FoldedBatchNorm) -> Tensor:
    """Fold a batch normalisation at inference into the Gemm before it.

    What: as `conv_batch_norm`.  The columns of the product are the channels.
    Numerics: rounding only.  Computed in float64 and rounded once to the dtype of the weights.
    """
    factor, offset = affine_coefficients(m)
    weights = g.literal(rounded_product(m.w.values, factor.reshape(-1, 1) if m.attributes.get("transB", 0) else factor))
    settings = dict(m.attributes)
    bias = g.literal(folded_bias(m.bias, factor * settings.pop("beta", 1.0), offset, m.w.dtype))
    return g.gemm(m.x, weights, bias, **settings)
