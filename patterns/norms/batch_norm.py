"""Batch normalisation (Ioffe and Szegedy, arXiv:1502.03167) at inference, with a fixed mean and variance."""

import numpy as np

from surgeon import Constant, Graph, Match, Tensor, require, rule
from .._common.floats import half_to_float32, narrowed
from ._per_channel import as_channel_vector


def by_deviation(g: Graph, x: Tensor, mean: Constant, deviation: Constant, scale: Constant, bias: Constant) -> Tensor:
    """(x − mean) / deviation · scale + bias.  The root of a constant is a constant."""
    return g.add(g.mul(g.div(g.sub(x, mean), deviation), scale), bias)


def one_node(
    g: Graph, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float, momentum: float
) -> Tensor:
    """BatchNormalization at inference."""
    return g.batch_normalization(x, scale, bias, mean, variance, epsilon=epsilon, momentum=momentum, outputs=1)[0]


def at_inference(match: Match) -> None:
    """Refuse training mode: below opset 14 further outputs mean training; below opset 7 is_test decides (ONNX spec)."""
    norms = [node for node in match.nodes if node.op == "BatchNormalization"]
    require(all(sum(map(bool, node.outputs)) == 1 for node in norms), "the normalisation is in training mode")
    require(not norms or (match.scope.opset or 0) > 6, "below opset 7 the normalisation may be in training mode")


@rule(patterns=[by_deviation], conditions=[at_inference], target="onnx", opset=7, form_patterns=[one_node])
def batch_norm(
    g: Graph,
    x: Tensor,
    scale: Constant,
    bias: Constant,
    mean: Constant,
    deviation: Constant,
) -> Tensor:
    """Fuse a batch normalisation with fixed statistics into one BatchNormalization node.

    What: (x − mean) / deviation · scale + bias for each channel.  The deviation is √(variance + ε), which the exporter
    or the graph has computed: its square becomes the variance, and ε becomes 0.  Plain x · a + b does not match.
    Numerics: rounding only.  The rule refuses float64, because the kernel of ONNX Runtime computes partly in float32.
    """
    require(x.dtype != "float64", "the kernel of ONNX Runtime is too coarse for float64")
    spreads = as_channel_vector(x, deviation, 1)
    require(bool(np.all(spreads > 0)), "a standard deviation must be positive")
    with np.errstate(over="ignore", under="ignore"):
        variance = spreads * spreads
    require(bool(np.all(np.isfinite(variance) & (variance > 0))), "the variance is outside the range of its dtype")
    scales, biases, means = as_channel_vector(x, scale, 1), as_channel_vector(x, bias, 0), as_channel_vector(x, mean, 0)
    return g.batch_normalization(x, scales, biases, means, variance, epsilon=0.0, outputs=1)[0]


@batch_norm.on("decomposed")
def _(g: Graph, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float) -> Tensor:
    # Half precision is computed in float32, as in the kernel of ONNX Runtime: differences and quotients may overflow.
    require(x.rank is not None, "the rank of the input is unknown")
    shape = (-1, *[1] * (x.rank - 2))
    scale, bias, mean, variance = (g.reshape(half_to_float32(g, one), shape) for one in (scale, bias, mean, variance))
    normal = g.div(g.sub(half_to_float32(g, x), mean), g.sqrt(g.add(variance, epsilon)))
    return narrowed(g, g.add(g.mul(normal, scale), bias), x)
