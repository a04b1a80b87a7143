"""Rotary position embedding (Su et al., arXiv:2104.09864), one half of a head turned against the other."""

from typing import Any

from surgeon import Graph, Tensor, rule
from ._rotary import Array, Rotary, one_of_two, tables
from ._rotary_written import runtimes, standard


def turned(g: Graph, x: Tensor) -> Tensor:
    """The second half of the last axis, negated, before the first."""
    first, second = g.cut(x, 2, -1)
    return g.concat(g.neg(second), first, axis=-1)


def table(g: Graph, m: Rotary, curve: Any, factor: Any) -> Tensor:
    """A cosine or sine of the angles, twice beside each other, for all heads."""
    curved = g.optional(g.mul(curve(g.concat(m.angles, m.angles, axis=-1)), factor))
    whole = g.shared(g.unsqueeze(g.optional(g.cast(curved, to=m.dtype)), [1]))
    return g.any_of(whole, g.shared(g.cast(whole, to=m.last)))


def by_angles(g: Graph, m: Rotary) -> Tensor:
    """x · cos + turned(x) · sin, the tables computed from angles in the graph."""
    cosine, sine = table(g, m, g.cos, m.cos_factor), table(g, m, g.sin, m.sin_factor)
    return g.add(g.mul(m.x, cosine), g.mul(turned(g, m.x), sine))


def by_spread_angles(g: Graph, m: Rotary) -> Tensor:
    """The same, from angles that are the same for all heads as they are, or have an axis of size 1 for them."""
    both = g.concat(m.spread, m.spread, axis=-1)
    cosine, sine = (g.shared(g.optional(g.cast(curve(both), to=m.dtype))) for curve in (g.cos, g.sin))
    return g.add(g.mul(m.x, cosine), g.mul(turned(g, m.x), sine))


def by_tables(g: Graph, m: Rotary) -> Tensor:
    """The same, from tables of half a head."""
    cosine, sine = (g.shared(g.concat(half, half, axis=-1)) for half in (m.cos, m.sin))
    return g.add(g.mul(m.x, cosine), g.mul(turned(g, m.x), sine))


def by_constants(g: Graph, m: Rotary) -> Tensor:
    """The same, from tables that are fixed, for sizes that are."""
    return g.add(g.mul(m.x, m.whole_cos), g.mul(turned(g, m.x), m.whole_sin))


def halved(values: Array) -> Array:
    """One of the two equal halves of a fixed table."""
    size = values.shape[-1] // 2
    return one_of_two(values[..., :size], values[..., size:])


@rule(patterns=[by_angles, by_spread_angles, by_tables, by_constants])
def rotary_embedding(g: Graph, m: Rotary) -> Tensor:
    """Fuse a rotary embedding into one RotaryEmbedding node.

    What: x · cos + turned(x) · sin over the last axis of [batch, head, row, column], where turned(x) has the second
    half of a head, negated, before the first.
    Numerics: rounding only.
    """
    return runtimes(g, m.x, tables(g, m, halved))


@rotary_embedding.on("onnx", opset=23)
def _(g: Graph, m: Rotary) -> Tensor:
    return standard(g, m.x, tables(g, m, halved))
