"""Batch normalisation (Ioffe and Szegedy, arXiv:1502.03167) at inference, behind a convolution or a linear layer."""

from typing import Any

import numpy as np

from surgeon import Constant, Graph, Match, Tensor, require, rule
from ._channels import Array, convolution, new_bias, scaled, scaled_weights


def conv_and_norm(
    g: Graph,
    x: Tensor,
    w: Constant,
    scale: Constant,
    shift: Constant,
    mean: Constant,
    variance: Constant,
    epsilon: float,
    momentum: float,
    bias: Constant | None = None,
    **attributes: Any,
) -> Tensor:
    """(conv(x) − mean) / √(variance + ε) · scale + shift, each a vector over channels; momentum plays no part."""
    made = g.any_of(g.conv(x, w, bias, **attributes), g.conv_transpose(x, w, bias, **attributes))
    return g.batch_normalization(made, scale, shift, mean, variance, epsilon=epsilon, momentum=momentum)


def linear_and_norm(
    g: Graph,
    x: Tensor,
    w: Constant,
    scale: Constant,
    shift: Constant,
    mean: Constant,
    variance: Constant,
    epsilon: float,
    momentum: float,
    bias: Constant | None = None,
    **attributes: Any,
) -> Tensor:
    """The same behind a Gemm, whose columns are the channels."""
    made = g.gemm(x, w, bias, **attributes)
    return g.batch_normalization(made, scale, shift, mean, variance, epsilon=epsilon, momentum=momentum)


def at_inference(match: Match) -> None:
    """Before opset 14 further outputs, of statistics, mean training (ONNX spec, BatchNormalization-9)."""
    norms = [node for node in match.nodes if node.op == "BatchNormalization"]
    require(all(sum(map(bool, node.outputs)) == 1 for node in norms), "the normalisation is in training mode")


def as_line(match: Match) -> tuple[Array, Array]:
    """(factor, offset): the normalisation is x · factor + offset, in double precision."""
    names = ("scale", "shift", "mean", "variance")
    require(all(match[name].rank == 1 for name in names), "scale, bias, mean and variance must be vectors")
    require(len({match[name].shape for name in names}) == 1, "scale, bias, mean and variance must be of one length")
    scale, shift, mean, variance = (match[name].values.astype(np.float64) for name in names)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + match["epsilon"])
        return factor, shift - mean * factor


@rule(patterns=[conv_and_norm], conditions=[at_inference], target="onnx", opset=7)
def conv_batch_norm(g: Graph, match: Match, x: Tensor, w: Constant, **attributes: Any) -> Tensor:
    """Fold a batch normalisation at inference into the convolution before it.

    What: weights · k and (bias − mean) · k + shift with k = scale / √(variance + ε), computed from the constants.
    Numerics: rounding only; computed in double precision and rounded once to the weights' dtype.
    """
    op = convolution(match)
    factor, offset = as_line(match)
    weights = g.literal(scaled_weights(op, w, factor, attributes.get("group", 1)))
    bias = g.literal(new_bias(match["bias"], factor, offset, w.dtype))
    made: Tensor = g.op(op, x, weights, bias, **attributes)
    return made


@rule(patterns=[linear_and_norm], conditions=[at_inference], target="onnx", opset=7)
def gemm_batch_norm(g: Graph, match: Match, x: Tensor, w: Constant, **attributes: Any) -> Tensor:
    """Fold a batch normalisation at inference into the Gemm before it.

    What: as `conv_batch_norm`; the columns of the product are the channels.
    Numerics: rounding only; computed in double precision and rounded once to the weights' dtype.
    """
    factor, offset = as_line(match)
    weights = g.literal(scaled(w.values, factor.reshape(-1, 1) if attributes.get("transB", 0) else factor))
    bias = g.literal(new_bias(match["bias"], factor * attributes.pop("beta", 1.0), offset, w.dtype))
    return g.gemm(x, weights, bias, **attributes)
