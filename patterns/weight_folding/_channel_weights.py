"""Convolutions and linear layers, and arithmetic on their weights: one number for each channel that they make."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Match, Tensor, require

Array = np.ndarray[Any, np.dtype[Any]]


class WeightedOp(Captures):
    """What a convolution or a linear layer reads, and its constants."""

    x: Tensor
    w: Constant
    bias: Constant | Any = None
    attributes: dict[str, Any]


def conv(g: Graph, m: WeightedOp) -> Tensor:
    """A convolution, transposed or not."""
    return g.any_of(*(write(m.x, m.w, m.bias, **m.attributes) for write in (g.conv, g.conv_transpose)))


def linear(g: Graph, m: WeightedOp) -> Tensor:
    """x · w, or x · w + bias."""
    product = g.matmul(m.x, m.w)
    return g.any_of(g.add(product, m.bias), product)


def require_column_bias(m: WeightedOp, columns: int) -> None:
    """The weights are a matrix, and the bias, if there is one, is a number for each of its columns."""
    require(m.w.rank == 2, "the weights are no matrix")
    fits = m.bias is None or (m.bias.values.size == columns == (m.bias.shape or (1,))[-1])
    require(fits, "the bias must hold one number for each column of the weights")
    require_no_wider(m.x, m.bias)


def require_no_wider(x: Tensor, factor: Tensor | None) -> None:
    """Refuse a bias or scale of more axes than a linear layer gives, which are then axes of the result."""
    fits = factor is None or (factor.rank is not None and (factor.rank < 2 or factor.rank <= (x.rank or 0)))
    require(fits, "the bias or scale has more axes than the product, and so has the result")


def rounded_product(w: Array, factor: Array) -> Array:
    """w · factor in the dtype of w: computed in double precision and rounded once, a buffer at a time.

    Refuses to round a whole channel to 0 that is none, which training may have let die: infinity times 0 is NaN.
    """
    made = np.empty_like(w)
    with np.errstate(all="ignore"):
        np.multiply(w, factor, out=made, dtype=np.float64, casting="unsafe")
    shape = (1,) * (w.ndim - factor.ndim) + factor.shape
    beside = tuple([axis for axis, size in enumerate(shape) if size == 1])
    lost = w.any(axis=beside, keepdims=True) & (factor != 0) & ~made.any(axis=beside, keepdims=True)
    require(not lost.any(), f"the numbers of a channel would be too small for {made.dtype.name}")
    return require_finite(made)


def require_finite(made: Array) -> Array:
    """The same numbers.  Refuses those that the dtype of the weights cannot hold."""
    require(bool(np.isfinite(made).all()), f"a folded number would not be finite in {made.dtype.name}")
    return made


def matched_conv(match: Match) -> str:
    """Conv or ConvTranspose, whichever was matched."""
    return next(str(node.op) for node in match.nodes if node.op in ("Conv", "ConvTranspose"))


def output_channels(op: str, w: Constant, group: int) -> int:
    """The number of channels that a convolution makes: weights are [M, C/group, ...] or [C, M/group, ...]."""
    return int(w.shape[1] * group if op == "ConvTranspose" else w.shape[0])


def with_scaled_channels(op: str, w: Constant, factor: Array, group: int) -> Array:
    """Weights of a convolution, each of the channels that it makes multiplied.  Refuses another number of factors."""
    made = w.shape[0] if op == "Conv" else w.shape[1] * group
    require(factor.size == made, f"the convolution makes {made} channels, and what follows has {factor.size}")
    if op == "Conv":
        return rounded_product(w.values, factor.reshape(-1, *[1] * (len(w.shape) - 1)))
    parts = w.values.reshape(group, w.shape[0] // group, w.shape[1], -1)  # a group makes a part of the channels
    return rounded_product(parts, factor.reshape(group, 1, -1, 1)).reshape(w.shape)


def folded_bias(bias: Constant | None, factor: Array | float, shift: Array, dtype: Any) -> Array:
    """bias · factor + shift, a vector over channels."""
    old = 0.0 if bias is None else bias.values.astype(np.float64)
    with np.errstate(all="ignore"):
        return require_finite(np.asarray(old * factor + shift).astype(dtype))


def over_channels(value: Constant | None, rank: int, channels: int, default: float) -> Array:
    """The number of a constant for each channel.  Refuses one that differs within a channel or adds an axis."""
    if value is None:
        return np.full(channels, default)
    require(len(value.shape) <= rank, "the constant has more axes than what the convolution makes")
    shape = (1,) * (rank - len(value.shape)) + tuple(value.shape)
    fits = all(size == 1 for axis, size in enumerate(shape) if axis != 1) and shape[1] in (1, channels)
    require(fits, "the constant must hold one number for each channel, or one for all")
    return np.broadcast_to(value.values.astype(np.float64).reshape(-1), channels)
