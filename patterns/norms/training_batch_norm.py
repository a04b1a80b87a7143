"""Batch normalisation with the mean and variance of the current batch, as in training."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require, rule
from .._common.floats import half_to_float32

SPREAD = {"non_finite": "if a channel contains NaN or infinity, each runtime averages differently"}


def trained(
    g: Graph, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float, momentum: float
) -> Any:
    """BatchNormalization in training mode: the normalised output, and the running mean and variance."""
    settings: Any = {"epsilon": epsilon, "momentum": momentum, "training_mode": 1}
    return g.batch_normalization(x, scale, bias, mean, variance, outputs=3, **settings)


@rule(patterns=[trained], target="any", opset=14, lacking=True, dtypes="floats", differs=SPREAD)
def training_batch_norm(
    g: Graph, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float, momentum: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Decompose a BatchNormalization in training mode into means over the batch, if the target does not support it.

    What: (x − mean) / √(variance + ε) · scale + bias with the mean and variance of each channel of this batch.  The
    running statistics become momentum · running + (1 − momentum) · statistics of this batch.  If the model is to
    process one input at a time, call `model.eval()` before the export instead.
    Numerics: rounding only.
    """
    require(x.rank is not None and x.rank > 1, "the rank of x is unknown, or x has no channel axis")
    require(x.dtype is not None and isinstance(x.shape[1], int), "the dtype of x or its number of channels is unknown")
    axes: Any = np.array([0, *range(2, x.rank)])
    wide = half_to_float32(g, x)
    count = g.div(g.cast(g.size(x), to=str(wide.dtype)), np.array(x.shape[1], wide.dtype))

    def mean_of(one: Tensor) -> Tensor:
        return g.div(g.reduce_sum(one, axes, keepdims=1), count)  # NaN for an empty batch, as in the original

    first = mean_of(wide)
    slip = mean_of(g.sub(wide, first))  # the rounding error of a mean far from zero
    center, apart = g.add(first, slip), g.sub(g.sub(wide, first), slip)
    spread = mean_of(g.mul(apart, apart))
    shape = np.array([-1, *[1] * (x.rank - 2)])

    def along(one: Tensor) -> Tensor:
        return g.reshape(g.in_dtype(one, wide.dtype), shape)

    normal = g.div(apart, g.sqrt(g.add(spread, np.array(epsilon, wide.dtype))))
    y = g.add(g.mul(normal, along(scale)), along(bias))
    flat = np.array([-1])

    def running(old: Tensor, new: Tensor) -> Tensor:
        part = g.reshape(new, flat)
        part = part if old.dtype == wide.dtype else g.cast(part, to=str(old.dtype))
        kept, added = np.array(momentum, old.dtype), np.array(1 - momentum, old.dtype)
        return g.add(g.mul(old, kept), g.mul(part, added))

    y = y if wide is x else g.cast(y, to=str(x.dtype))
    return y, running(mean, center), running(variance, spread)
