"""Code that norms over the axes after the channels share: mean and variance, and one number for each channel."""

from collections.abc import Sequence

import numpy as np

from surgeon import Constant, Graph, Tensor, require


def has_shape_of(y: Tensor, x: Tensor) -> None:
    """Refuse a result whose shape differs from the shape of the input."""
    require(x.shape is not None, "the shape of the input is unknown")
    require(y.shape == x.shape, "the result must have the shape of the input")


def normalised(g: Graph, x: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """(x − mean) / √(variance + ε), optionally in a wider dtype."""
    centred = g.maybe_wider(g.centred(g.maybe_wider(x), axes))
    return g.maybe_narrower(g.over_root(centred, g.add(g.variance_over(x, axes), epsilon)))


def scaled_and_shifted(g: Graph, x: Tensor, scale: Constant, bias: Constant) -> Tensor:
    """x · scale + bias, or only x."""
    return g.any_of(g.add(g.mul(x, scale), bias), x)


def require_spatial(x: Tensor, axes: Sequence[int] | None) -> None:
    """Refuse axes other than all axes of x after the first two."""
    require(x.shape is not None, "the rank of the normalised tensor is unknown")
    rank = x.rank
    require(rank > 2, "the normalised tensor must have axes after batch and channels")
    counted = {axis % rank for axis in axes or range(2, rank)}
    require(counted == set(range(2, rank)), "mean and variance must be computed over all axes after the channels")


def channel_count(x: Tensor) -> int:
    """Return the number of channels of x, which is its second axis.  Refuse a size that is not fixed."""
    require(x.rank is not None, "the rank of the input is unknown")
    require(x.rank > 1, "the input has no channel axis")
    require(isinstance(x.shape[1], int), "the number of channels is not fixed")
    return int(x.shape[1])


def as_channel_vector(x: Tensor, constant: Constant | None, default: float, dtype: str | None = None) -> np.ndarray:
    """Return a constant as a vector over the channels of x, in its dtype or another.  `default` replaces None.

    Refuse a constant that runs along other axes if it is broadcast with x.
    """
    number = channel_count(x)
    require(x.dtype is not None, "the dtype of the input is unknown")
    if constant is None:
        return np.full(number, default, dtype or x.dtype)
    shape = (1,) * (x.rank - constant.rank) + tuple(constant.shape)
    wanted = (1, number) + (1,) * (x.rank - 2)
    is_one = constant.rank <= x.rank and set(shape) <= {1}
    require(is_one or shape == wanted, "scale and bias must run along only the channels")
    return np.broadcast_to(constant.values.reshape(-1), number).astype(dtype or x.dtype)
