"""Fourier transforms of fixed size as products with tables of sines and cosines."""

from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule

MAX_TABLE_SIZE = 2**23  # elements of a table
# For float64, a fast transform gives 1e-15 if a table gives 0, and no exact reference decides which is right.
DTYPES = ("float16", "bfloat16", "float32")
INFINITE = {
    "non_finite": "for one infinite element a fast transform gives NaN everywhere, but a sum only if a factor is 0"
}


class FourierTransform(Captures):
    """A signal with its parts along the last axis, the requested length, and the axis."""

    x: Tensor
    length: int | None = None
    axis: int | None = None
    attributes: dict[str, Any] = {}  # noqa: RUF012


class Frames(Captures):
    """A signal, and the windows over it."""

    x: Tensor
    step: int
    window: Constant | None = None
    length: int | None = None
    attributes: dict[str, Any] = {}  # noqa: RUF012


def table(rows: int, length: int, parts: int, *, inverse: bool, onesided: bool) -> np.ndarray[Any, Any]:
    """Return the weight of each part of each element in each part of each frequency: [rows, parts, frequencies, 2].

    e^(∓2πi · row · frequency / length), divided by the length for the inverse.
    """
    count = length // 2 + 1 if onesided else length
    require(rows * parts * count * 2 <= MAX_TABLE_SIZE, f"a table for {length} elements would be too large")
    turns = np.outer(np.arange(rows), np.arange(count)) % length / length
    real, imaginary = np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns) * (1 if inverse else -1)
    of_real, of_imaginary = np.stack([real, imaginary], -1), np.stack([-imaginary, real], -1)
    found = np.stack([of_real, of_imaginary][:parts], 1)
    return found / length if inverse else found


def by_input(g: Graph, m: FourierTransform) -> Tensor:
    """DFT, whose axis is an input since opset 20."""
    return g.dft(m.x, m.length, m.axis, **m.attributes)


@rule(patterns=[by_input], target="any", lacking=True, dtypes=DTYPES, differs=INFINITE)
def dft(g: Graph, m: FourierTransform) -> Tensor:
    """Write a DFT of fixed length as a MatMul with its table.

    What: the forward and inverse transform of real and complex numbers, padded or cut to a length, one-sided or
    two-sided.  For targets that do not support DFT.  The work grows with the square of the length.
    Numerics: rounding only.  With infinite numbers, NaN occurs in other elements.  The rule does not match float64.
    """
    rank, shape = m.x.rank, m.x.shape
    require(rank is not None and shape[-1] in (1, 2), "it is unknown whether the signal is real or complex")
    axis = (-2 if m.axis is None else m.axis) % rank
    inverse, onesided = (bool(m.attributes.get(name)) for name in ("inverse", "onesided"))
    require(not (inverse and onesided), "the inverse of a one-sided transform is not supported")
    size = shape[axis]
    require(isinstance(size, int), "the length of the signal is not fixed")
    length = size if m.length is None else m.length
    rows, parts = min(size, length), shape[-1]
    values = table(rows, length, parts, inverse=inverse, onesided=onesided)
    count = values.shape[2]
    x = m.x if rows == size else g.slice(m.x, [0], [rows], [axis])
    order = [*(place for place in range(rank - 1) if place != axis), axis, rank - 1]
    is_moved = order != list(range(rank))
    x = g.transpose(x, perm=order) if is_moved else x
    ahead = [0] * (rank - 2)
    flat = g.reshape(x, np.array([*ahead, rows * parts]))
    made = g.reshape(g.matmul(flat, values.reshape(rows * parts, count * 2)), np.array([*ahead, count, 2]))
    return g.transpose(made, perm=[order.index(place) for place in range(rank)]) if is_moved else made


def windowed(g: Graph, m: Frames) -> Tensor:
    """STFT."""
    return g.stft(m.x, m.step, m.window, m.length, **m.attributes)


@rule(patterns=[windowed], target="any", lacking=True, dtypes=DTYPES, differs=INFINITE)
def stft(g: Graph, m: Frames) -> Tensor:
    """Write an STFT of fixed windows as a Conv with its table.

    What: frames of a signal times a window, each transformed, one-sided or two-sided.  For targets that do not support
    STFT.
    Numerics: rounding only.  With infinite numbers, NaN occurs in other elements.  The rule does not match float64.
    """
    require(m.x.rank == 3 and m.x.shape[-1] in (1, 2), "it is unknown whether the signal is real or complex")
    length: Any = m.length if m.window is None else m.window.values.size
    require(length is not None, "it has neither a window nor a frame length")
    parts = m.x.shape[-1]
    values = table(length, length, parts, inverse=False, onesided=bool(m.attributes.get("onesided", 1)))
    if m.window is not None:
        values = values * m.window.values.astype(np.float64).reshape(-1, 1, 1, 1)
    count = values.shape[2]
    weights = values.transpose(2, 3, 1, 0).reshape(count * 2, parts, length)
    made = g.conv(g.transpose(m.x, perm=[0, 2, 1]), weights, strides=[m.step])
    return g.reshape(g.transpose(made, perm=[0, 2, 1]), np.array([0, 0, count, 2]))
