"""Rotary position embedding (Su et al., arXiv:2104.09864), one half of a head turned against the other."""

from typing import Any

from surgeon import Constant, Graph, Match, Tensor, require, rule
from ._rotary import Array, one_of_two, runtimes, standard, tables


def turned(g: Graph, x: Tensor, *cut: Any) -> Tensor:
    """The second half of the last axis, negated, before the first."""
    low, high, middle, axis, step = cut
    cuts: list[Any] = [(g.slice(x, low, middle, axis, step), g.slice(x, middle, high, axis, step))]
    cuts += [g.split(x, axis=-1, num_outputs=2, outputs=2), g.split(x, middle, axis=-1, outputs=2)]
    return g.any_of(*(g.concat(g.neg(second), first, axis=-1) for first, second in cuts))


def table(g: Graph, curve: Any, angles: Tensor, factor: float, dtype: int, last: int) -> Tensor:
    """A cosine or sine of the angles, twice beside each other, for all heads."""
    curved = curve(g.concat(angles, angles, axis=-1))
    times = g.any_of(g.mul(curved, factor), curved)
    whole = g.shared(g.unsqueeze(g.any_of(g.cast(times, to=dtype), times), [1]))
    return g.any_of(whole, g.shared(g.cast(whole, to=last)))


def by_angles(
    g: Graph,
    x: Tensor,
    angles: Tensor,
    cos_factor: float,
    sin_factor: float,
    dtype: int,
    last: int,
    low: list[int],
    high: list[int],
    middle: list[int],
    axis: list[int],
    step: list[int] | None = None,
) -> Tensor:
    """x · cos + turned(x) · sin, the tables computed from angles in the graph."""
    curves = ((g.cos, cos_factor), (g.sin, sin_factor))
    cosine, sine = (table(g, curve, angles, factor, dtype, last) for curve, factor in curves)
    return g.add(g.mul(x, cosine), g.mul(turned(g, x, low, high, middle, axis, step), sine))


def by_spread_angles(
    g: Graph,
    x: Tensor,
    spread: Tensor,
    dtype: int,
    low: list[int],
    high: list[int],
    middle: list[int],
    axis: list[int],
    step: list[int] | None = None,
) -> Tensor:
    """The same, from angles that are the same for all heads as they are, or have an axis of size 1 for them."""
    both = g.concat(spread, spread, axis=-1)
    curves = [g.shared(g.any_of(g.cast(curve(both), to=dtype), curve(both))) for curve in (g.cos, g.sin)]
    return g.add(g.mul(x, curves[0]), g.mul(turned(g, x, low, high, middle, axis, step), curves[1]))


def by_tables(
    g: Graph,
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    low: list[int],
    high: list[int],
    middle: list[int],
    axis: list[int],
    step: list[int] | None = None,
) -> Tensor:
    """The same, from tables of half a head."""
    cosine, sine = g.shared(g.concat(cos, cos, axis=-1)), g.shared(g.concat(sin, sin, axis=-1))
    return g.add(g.mul(x, cosine), g.mul(turned(g, x, low, high, middle, axis, step), sine))


def by_constants(
    g: Graph,
    x: Tensor,
    whole_cos: Constant,
    whole_sin: Constant,
    low: list[int],
    high: list[int],
    middle: list[int],
    axis: list[int],
    step: list[int] | None = None,
) -> Tensor:
    """The same, from tables that are fixed, for sizes that are."""
    return g.add(g.mul(x, whole_cos), g.mul(turned(g, x, low, high, middle, axis, step), whole_sin))


def halves(
    x: Tensor,
    low: list[int] | None = None,
    high: list[int] | None = None,
    middle: list[int] | None = None,
    axis: list[int] | None = None,
    step: list[int] | None = None,
) -> None:
    """What is cut are the two halves of the last of four axes."""
    require(x.rank == 4, "the input has other axes than batch, head, row, column")
    size = x.shape[3]
    require(isinstance(size, int) and size % 2 == 0, "the size of a head is unknown or odd")
    require(middle is None or middle[0] == size // 2, "the axis is not cut in the middle")
    if low is not None and high is not None and axis is not None:
        require(axis[0] in (3, -1), "it is not the last axis that is cut")
        require(step in (None, [1]), "a slice leaves numbers out")
        require(low[0] == 0 and high[0] >= size, "a slice leaves numbers out")


def halved(values: Array) -> Array:
    """One of the two equal halves of a fixed table."""
    size = values.shape[-1] // 2
    return one_of_two(values[..., :size], values[..., size:])


@rule(patterns=[by_angles, by_spread_angles, by_tables, by_constants], conditions=[halves])
def rotary_embedding(g: Graph, match: Match, x: Tensor) -> Tensor:
    """Fuse a rotary embedding into one RotaryEmbedding node.

    What: x · cos + turned(x) · sin over the last axis of [batch, head, row, column], where turned(x) has the second
    half of a head, negated, before the first.
    Numerics: rounding only.
    """
    return runtimes(g, x, tables(g, match, x, halved))


@rotary_embedding.on("onnx", opset=23)
def _(g: Graph, match: Match, x: Tensor) -> Tensor:
    return standard(g, x, tables(g, match, x, halved))
