"""Norms over only the channels of an image, written with nodes that normalise the last axis."""

from collections.abc import Callable, Sequence

from surgeon import Graph, Tensor, require
from .._common.axes import Array
from .._common.floats import rescaled_for_epsilon


def with_channels_last(
    g: Graph, write: Callable[..., Tensor], x: Tensor, factors: Sequence[Tensor], epsilon: float
) -> Tensor:
    """Write Transpose, write(x, *factors, axis=-1, epsilon=epsilon), and Transpose.

    Refuse an x without axes after the channels, and factors of another shape than [C, 1, …] or another dtype.
    """
    rank = x.rank
    require(rank is not None and rank > 2, "the input must have axes after the channels")
    channels = x.shape[1]
    require(isinstance(channels, int), "the number of channels is not fixed")
    for factor in factors:
        require(factor.dtype == x.dtype, "scale and bias must have the dtype of the input")
        fits = factor.shape in ((channels, *[1] * (rank - 2)), (1, channels, *[1] * (rank - 2)))
        require(fits, "scale and bias must run along only the channels")
    last = g.transpose(rescaled_for_epsilon(g, x, epsilon), perm=[0, *range(2, rank), 1])
    normal = write(last, *(_vector(g, factor) for factor in factors), axis=-1, epsilon=epsilon)
    return g.transpose(normal, perm=[0, rank - 1, *range(1, rank - 1)])


def _vector(g: Graph, factor: Tensor) -> Tensor | Array:
    """Return a factor with one number for each channel, without its axes of size 1."""
    return factor.values.reshape(-1) if factor.is_constant else g.reshape(factor, [-1])
