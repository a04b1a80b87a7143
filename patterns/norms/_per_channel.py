"""What norms over the axes behind the channels have in common: mean and variance, and one number for each channel."""

from collections.abc import Sequence

import numpy as np

from surgeon import Constant, Graph, Tensor, require


def has_shape_of(y: Tensor, x: Tensor) -> None:
    """Refuse a result of another shape than that of the input."""
    require(x.shape is not None, "the shape of the input is unknown")
    require(y.shape == x.shape, "the result must have the shape of the input")


def normalised(g: Graph, x: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """(x − mean) / √(variance + ε), perhaps in a wider dtype."""
    centred = g.maybe_wider(g.centred(g.maybe_wider(x), axes))
    return g.maybe_narrower(g.over_root(centred, g.add(g.variance_over(x, axes), epsilon)))


def scaled_and_shifted(g: Graph, x: Tensor, scale: Constant, bias: Constant) -> Tensor:
    """x · scale + bias, or x as it is."""
    return g.any_of(g.add(g.mul(x, scale), bias), x)


def require_spatial(x: Tensor, axes: Sequence[int] | None) -> None:
    """Refuse axes that are not all those behind the first two of x."""
    require(x.shape is not None, "the rank of what is normalised is unknown")
    rank = x.rank
    require(rank > 2, "what is normalised must have axes behind batch and channels")
    counted = {axis % rank for axis in axes or range(2, rank)}
    require(counted == set(range(2, rank)), "mean and variance must be taken over all axes behind the channels")


def channel_count(x: Tensor) -> int:
    """The number of channels of x, its second axis.  Refuses one that is not fixed."""
    require(x.rank is not None, "the rank of the input is unknown")
    require(x.rank > 1, "the input has no axis of channels")
    require(isinstance(x.shape[1], int), "the number of channels is not fixed")
    return int(x.shape[1])


def as_channel_vector(x: Tensor, constant: Constant | None, default: float, dtype: str | None = None) -> np.ndarray:
    """A constant as a vector over the channels of x, in its dtype or another; `default` for one that is left out.

    Refuses a constant that runs along other axes when it is broadcast with x.
    """
    number = channel_count(x)
    require(x.dtype is not None, "the dtype of the input is unknown")
    if constant is None:
        return np.full(number, default, dtype or x.dtype)
    shape = (1,) * (x.rank - constant.rank) + tuple(constant.shape)
    wanted = (1, number) + (1,) * (x.rank - 2)
    is_one = constant.rank <= x.rank and set(shape) <= {1}
    require(is_one or shape == wanted, "scale and bias must run along the channels alone")
    return np.broadcast_to(constant.values.reshape(-1), number).astype(dtype or x.dtype)
