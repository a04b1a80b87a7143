"""Convolutions and linear layers, and arithmetic on their weights with one number for each output channel."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Match, Tensor, require

Array = np.ndarray[Any, np.dtype[Any]]


class WeightedOp(Captures):
    """The input of a convolution or a linear layer, and its constants."""

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
    """Require that the weights are a matrix, and that the bias, if any, has one number for each column."""
    require(m.w.rank == 2, "the weights must be a matrix")
    fits = m.bias is None or (m.bias.values.size == columns == (m.bias.shape or (1,))[-1])
    require(fits, "the bias must have one number for each column of the weights")
    require_no_wider(m.x, m.bias)


def require_no_wider(x: Tensor, factor: Tensor | None) -> None:
    """Refuse a bias or scale with more axes than the output of a linear layer, because the result has its axes too."""
    fits = factor is None or (factor.rank is not None and (factor.rank < 2 or factor.rank <= (x.rank or 0)))
    require(fits, "the bias or scale has more axes than the product, so the result has more axes too")


def rounded_product(w: Array, factor: Array) -> Array:
    """Return w · factor in the dtype of w, computed in float64 and rounded once, one buffer at a time.

    Refuse products that round a whole channel to 0, unless the channel is 0 already.  Training may leave such a
    channel, and infinity times 0 is NaN.
    """
    made = np.empty_like(w)
    with np.errstate(all="ignore"):
        np.multiply(w, factor, out=made, dtype=np.float64, casting="unsafe")
    shape = (1,) * (w.ndim - factor.ndim) + factor.shape
    beside = tuple([axis for axis, size in enumerate(shape) if size == 1])
    lost = w.any(axis=beside, keepdims=True) & (factor != 0) & ~made.any(axis=beside, keepdims=True)
    require(not lost.any(), f"the weights of a channel would round to 0 in {made.dtype.name}")
    return require_finite(made)


def require_finite(made: Array) -> Array:
    """Return the same numbers.  Refuse numbers outside the range of the dtype of the weights."""
    require(bool(np.isfinite(made).all()), f"a folded number would be infinite or NaN in {made.dtype.name}")
    return made


def matched_conv(match: Match) -> str:
    """Return the matched op: Conv or ConvTranspose."""
    return next(str(node.op) for node in match.nodes if node.op in ("Conv", "ConvTranspose"))


def output_channels(op: str, w: Constant, group: int) -> int:
    """Return the number of output channels of a convolution.  Weights are [M, C/group, ...] or [C, M/group, ...]."""
    return int(w.shape[1] * group if op == "ConvTranspose" else w.shape[0])


def with_scaled_channels(op: str, w: Constant, factor: Array, group: int) -> Array:
    """Multiply the weights of a convolution by one number for each output channel.  Refuse other numbers of factors."""
    made = w.shape[0] if op == "Conv" else w.shape[1] * group
    require(
        factor.size == made, f"the convolution has {made} output channels, but the constant has {factor.size} numbers"
    )
    if op == "Conv":
        return rounded_product(w.values, factor.reshape(-1, *[1] * (len(w.shape) - 1)))
    require(w.shape[0] % group == 0, "the number of input channels is not a multiple of the groups")
    parts = w.values.reshape(group, w.shape[0] // group, w.shape[1], -1)  # each group computes a part of the channels
    return rounded_product(parts, factor.reshape(group, 1, -1, 1)).reshape(w.shape)


def folded_bias(bias: Constant | None, factor: Array | float, shift: Array, dtype: Any) -> Array:
    """bias · factor + shift, a vector over channels."""
    old = 0.0 if bias is None else bias.values.astype(np.float64)
    with np.errstate(all="ignore"):
        return require_finite(np.asarray(old * factor + shift).astype(dtype))


def over_channels(value: Constant | None, rank: int, channels: int, default: float) -> Array:
    """Return one number of a constant for each channel.  Refuse a constant that varies in a channel or adds an axis."""
    if value is None:
        return np.full(channels, default)
    require(len(value.shape) <= rank, "the constant has more axes than the output of the convolution")
    shape = (1,) * (rank - len(value.shape)) + tuple(value.shape)
    fits = all(size == 1 for axis, size in enumerate(shape) if axis != 1) and shape[1] in (1, channels)
    require(fits, "the constant must have one number for each channel, or one for all")
    return np.broadcast_to(value.values.astype(np.float64).reshape(-1), channels)


def pads_nothing(m: WeightedOp) -> None:
    """Require a convolution without padding: a sum or a normalisation would have to shift the padding too."""
    is_bare = not any(m.attributes.get("pads") or [0]) and m.attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    require(is_bare, "the convolution pads with zeros, which would have to be shifted")


def conv_of_affine(g: Graph, m: WeightedOp, factor: Array, offset: Array) -> Tensor:
    """Write the convolution of x · factor + offset, with one number for each channel of x, as a convolution of x."""
    group, (made, read, *_) = m.attributes.get("group", 1), m.w.shape
    require(
        factor.size == read * group,
        f"the convolution has {read * group} input channels, but there are {factor.size} numbers",
    )
    ones = [1] * (len(m.w.shape) - 2)
    of_each = np.repeat(np.arange(group), made // group)  # the group of each output channel
    factors, offsets = (item.reshape(group, read)[of_each].reshape(made, read, *ones) for item in (factor, offset))
    added = (m.w.values.astype(np.float64) * offsets).reshape(made, -1).sum(axis=1)
    bias = m.bias if not offset.any() else g.literal(folded_bias(m.bias, 1.0, added, m.w.dtype))
    return g.conv(m.x, g.literal(rounded_product(m.w.values, factors)), bias, **m.attributes)
