"""RMS normalisation written with lengths: x over its Euclidean length, times the root of the number of elements."""

from math import isclose, sqrt
from typing import Any

import numpy as np

from surgeon import Captures, Constant, Graph, Tensor, require, rule
from .._common.axes import Array, as_norm_scale, has_explicit_axes, require_trailing_axes
from .l2_norm import MAX_FLOOR, is_expanded_like

SHORT = "a row about as long as the floor, of 1e-12 in all, comes out up to a root of two shorter"
DIFFERS = {
    "denormals": SHORT,
    "extreme": SHORT,
    "non_finite": "a row that holds an infinity gives what the runtime makes of infinity over infinity",
}


class L2RmsNorm(Captures):
    """What is normalised over which axes; inner: a number on its length, outer: one on the result, which is scaled.

    floor: the least length; epsilon: what is added to the sum of the squares in its place.
    """

    x: Tensor
    axes: list[int]
    floor: float | Any = None
    epsilon: float | Any = None
    inner: float = 1.0
    outer: float = 1.0
    scale: Tensor | Any = None


def over_length(g: Graph, m: L2RmsNorm) -> Tensor:
    """x / max(‖x‖ · inner, floor), the length perhaps spread to the shape of x."""
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
    """x / √(Σx² + ε), perhaps times a number and a scale."""
    normal = g.over_root(m.x, g.add(g.sum_over(g.square(m.x), m.axes), m.epsilon))
    return g.any_of(g.mul(normal, m.outer, m.scale), g.mul(normal, m.outer), g.mul(normal, m.scale), normal)


@rule(patterns=[scaled, plain], conditions=[has_explicit_axes], differs=DIFFERS)
def rms_norm_from_l2(g: Graph, m: L2RmsNorm) -> Tensor:
    """Fuse x / max(‖x‖, floor) · √n · scale over the last axes into SimplifiedLayerNormalization.

    What: a root mean square normalisation by torch's normalize, as x-transformers and vit-pytorch have it; n numbers
    are in a row, and the floor is at most 1e-6.  What the numbers come to beside √n becomes part of the scale.
    Numerics: rounding only, for rows that are longer than the floor, and for zeros.
    """
    return by_mean(g, m)


@rule(patterns=[rooted], conditions=[has_explicit_axes])
def rms_norm_from_sum(g: Graph, m: L2RmsNorm) -> Tensor:
    """Fuse x / √(Σx² + ε) over the last axes into SimplifiedLayerNormalization.

    What: the normalisation of queries and keys in models of linear attention (Qwen3-Next, fla), perhaps scaled; n
    numbers are in a row.  ε becomes ε / n, and 1 / √n part of the scale.
    Numerics: rounding only.
    """
    return by_mean(g, m)


def by_mean(g: Graph, m: L2RmsNorm) -> Tensor:
    """SimplifiedLayerNormalization, which divides by the root of the mean of squares."""
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
    """What the result is multiplied with beside a scale, and the ε, where a row has so many numbers."""
    if m.floor is None:
        return m.outer / sqrt(count), m.epsilon / count
    require(m.inner > 0, "the length is multiplied with a number that is not positive")
    require(0 <= m.floor / m.inner <= MAX_FLOOR, f"the floor is {m.floor:g}, and a norm has none")
    return m.outer / (m.inner * sqrt(count)), (m.floor / m.inner) ** 2 / count


def times(g: Graph, m: L2RmsNorm, scale: Tensor | Array | None, factor: float, sizes: Any) -> Any:
    """A scale times a number, ones where there is none."""
    if scale is None:
        return np.full(sizes, 1.0 if isclose(factor, 1, rel_tol=1e-6) else factor, m.x.dtype)
    if isclose(factor, 1, rel_tol=1e-6):
        return scale
    values = scale.values if isinstance(scale, Constant) else scale
    if isinstance(values, np.ndarray):
        return (values.astype(np.float64) * factor).astype(m.x.dtype)
    return g.mul(scale, factor)
