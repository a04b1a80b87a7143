"""RMS normalisation written with lengths: x divided by its Euclidean length, times the root of the row size."""

from math import isclose, sqrt
from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from .._common.axes import Array, as_norm_scale, has_explicit_axes, require_trailing_axes
from .l2_norm import MAX_FLOOR, is_expanded_like

SHORT = "a row about as long as the floor, 1e-12 in total, becomes shorter by up to a root of two"
DIFFERS = {
    "denormals": SHORT,
    "extreme": SHORT,
    "non_finite": "a row with an infinity gives infinity over infinity, which each runtime computes differently",
}


class L2RmsNorm(Captures):
    """The input, the axes, a factor of its length (inner), a factor of the result (outer), and a scale.

    floor: the least length. epsilon: the number that is added to the sum of squares instead.
    """

    x: Tensor
    axes: list[int]
    floor: float | Any = None
    epsilon: float | Any = None
    inner: float = 1.0
    outer: float = 1.0
    scale: Tensor | Any = None


def over_length(g: Graph, m: L2RmsNorm) -> Tensor:
    """x / max(‖x‖ · inner, floor).  The length may be expanded to the shape of x."""
    length = g.length_over(m.x, m.axes)
    shifted = g.any_of(g.mul(length, m.inner), length)
    least = g.any_of(g.clip(shifted, m.floor), g.max(shifted, m.floor))
    return g.div(m.x, g.any_of(g.such_that(g.expand(least, g.any_tensor()), is_expanded_like, m.x), least))


def scaled(g: Graph, m: L2RmsNorm) -> Tensor:
    """x / max(‖x‖ · inner, floor) · outer · scale."""
    normal = over_length(g, m)
    return g.any_of(g.mul(normal, m.outer, m.scale), g.mul(normal, m.scale))


def plain(g: Graph, m: L2RmsNorm) -> Tensor:
    """The same without a scale."""
    return g.mul(over_length(g, m), m.outer)


def rooted(g: Graph, m: L2RmsNorm) -> Tensor:
    """x / √(Σx² + ε), optionally times a number and a scale."""
    normal = g.over_root(m.x, g.add(g.sum_over(g.square(m.x), m.axes), m.epsilon))
    return g.any_of(g.mul(normal, m.outer, m.scale), g.mul(normal, m.outer), g.mul(normal, m.scale), normal)


@rule(patterns=[scaled, plain], conditions=[has_explicit_axes], differs=DIFFERS)
def rms_norm_from_l2(g: Graph, m: L2RmsNorm) -> Tensor:
    """Fuse x / max(‖x‖, floor) · √n · scale over the last axes into SimplifiedLayerNormalization.

    What: a root mean square normalisation written with normalize of torch, as in x-transformers and vit-pytorch.  A row
    has n numbers, and the floor is at most 1e-6.  If the constant factor is not √n, the rest becomes part of the scale.
    Numerics: rounding only for rows that are longer than the floor, and for zeros.
    """
    return by_mean(g, m)


@rule(patterns=[rooted], conditions=[has_explicit_axes])
def rms_norm_from_sum(g: Graph, m: L2RmsNorm) -> Tensor:
    """Fuse x / √(Σx² + ε) over the last axes into SimplifiedLayerNormalization.

    What: the normalisation of queries and keys in models with linear attention (Qwen3-Next, fla), with an optional
    scale.  A row has n numbers.  ε becomes ε / n, and 1 / √n becomes part of the scale.
    Numerics: rounding only.
    """
    return by_mean(g, m)


def by_mean(g: Graph, m: L2RmsNorm) -> Tensor:
    """Write SimplifiedLayerNormalization, which divides by the root of the mean of squares."""
    first = require_trailing_axes(m.x, m.axes)
    require(m.x.shape is not None and m.x.dtype is not None, "the shape or the dtype of the input is unknown")
    sizes = m.x.shape[first:]
    require(all(isinstance(size, int) for size in sizes), "the sizes of the axes must be known")
    factor, epsilon = scale_and_epsilon(m, int(np.prod(sizes)))
    scale = as_norm_scale(m.x, first, m.scale)
    return g.simplified_layer_normalization(
        m.x, times(g, m, scale, factor=factor, sizes=sizes), axis=first, epsilon=epsilon
    )


def scale_and_epsilon(m: L2RmsNorm, count: int) -> tuple[float, float]:
    """Return the constant factor of the result and the ε, for rows of `count` numbers."""
    if m.floor is None:
        return m.outer / sqrt(count), m.epsilon / count
    require(m.inner > 0, "the factor of the length must be positive")
    require(0 <= m.floor / m.inner <= MAX_FLOOR, f"the floor is {m.floor:g}, but a norm has no floor")
    return m.outer / (m.inner * sqrt(count)), (m.floor / m.inner) ** 2 / count


def times(g: Graph, m: L2RmsNorm, scale: Tensor | Array | None, factor: float, sizes: Any) -> Any:
    """Return a scale times a number.  A missing scale counts as ones."""
    if scale is None:
        return np.full(sizes, 1.0 if isclose(factor, 1, rel_tol=1e-6) else factor, m.x.dtype)
    if isclose(factor, 1, rel_tol=1e-6):
        return scale
    values = scale.values if isinstance(scale, Constant) else scale
    if isinstance(values, np.ndarray):
        return (values.astype(np.float64) * factor).astype(m.x.dtype)
    return g.mul(scale, factor)
