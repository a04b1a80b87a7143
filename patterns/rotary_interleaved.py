"""Rotary position embedding (Su et al., arXiv:2104.09864), each even number turned against the odd one behind it."""

from surgeon import Graph, Tensor, require, rule
from ._layouts import reshaped
from ._rotary import Array, Rotary, one_of_two, tables
from ._rotary_written import runtimes, standard


def is_in_pairs(pairs: Tensor, x: Tensor) -> None:
    """The last of four axes is split into pairs of neighbours."""
    require(pairs.shape == (*x.shape[:3], x.shape[3] // 2, 2), "the last axis is not split into pairs")


def is_every_other(part: Tensor, x: Tensor) -> None:
    """A part has half of the last of four axes, and all of the others."""
    require(part.shape == (*x.shape[:3], x.shape[3] // 2), "it is not every other number of the last axis that is cut")


def every_other(g: Graph, x: Tensor, at: int) -> Tensor:
    """Every other number of the last axis, from the first (0) or the second (1) on."""
    pairs = g.such_that(reshaped(g, x), is_in_pairs, x)
    forms = [g.slice(x, [at], g.any_tensor(), [-1], [2]), g.gather(pairs, at, axis=-1)]
    return g.such_that(g.any_of(*forms, g.squeeze(g.cut(pairs, 2, -1)[at], [-1])), is_every_other, x)


def is_whole(y: Tensor, x: Tensor) -> None:
    """Pairs are joined as they came."""
    require(y.shape == x.shape, "the pairs are joined in another shape")


def stacked(g: Graph, x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Two tensors interleaved along the last of four axes; the shape of the pairs may be read."""
    pairs = g.shared(g.concat(g.unsqueeze(first, [-1]), g.unsqueeze(second, [-1]), axis=-1))
    return g.such_that(reshaped(g, pairs), is_whole, x)


def turned(g: Graph, x: Tensor) -> Tensor:
    """Each odd number negated, before the even one in front of it."""
    return stacked(g, x, g.neg(every_other(g, x, 1)), every_other(g, x, 0))


def is_before_copies(spread: Tensor, table: Tensor, may_add: bool) -> None:
    """A new axis stands behind all others; where there may be more, perhaps others before the columns."""
    require(table.shape is not None and spread.shape is not None, "the shape of a table is unknown")
    require(spread.shape[-2:] == (table.shape[-1], 1), "a table is copied along another axis")
    require(may_add or spread.rank == table.rank + 1, "a table has other axes than batch, row, column")


def is_twice(whole: Tensor, spread: Tensor) -> None:
    """Each column stands twice, one copy behind the other."""
    *ahead, columns, _ = spread.shape
    require(isinstance(columns, int), "the shape of a table is unknown")
    require(whole.shape == (*ahead, 2 * columns), "a table is joined otherwise than column by column")


def twice(g: Graph, table: Tensor, name: str = "") -> Tensor:
    """Each column of a table two times, as torch's repeat_interleave makes it.

    name: of the table with axes for its heads and its copies; without it there is none for the heads.
    """
    spread = g.such_that(g.unsqueeze(table, g.any_tensor()), is_before_copies, table, bool(name))
    spread = g.capture(name, spread) if name else spread
    copies = [g.expand(spread, g.any_tensor()), g.tile(spread, g.any_tensor()), g.concat(spread, spread, axis=-1)]
    return g.such_that(reshaped(g, g.any_of(*copies)), is_twice, spread)


def by_pairs(g: Graph, m: Rotary) -> Tensor:
    """Even and odd numbers, each turned by its own formula, from tables of half a head."""
    even, odd = every_other(g, m.x, 0), every_other(g, m.x, 1)
    first, second = g.sub(g.mul(even, m.cos), g.mul(odd, m.sin)), g.add(g.mul(even, m.sin), g.mul(odd, m.cos))
    return stacked(g, m.x, first, second)


def by_angles(g: Graph, m: Rotary) -> Tensor:
    """x · cos + turned(x) · sin, the tables computed from angles in the graph."""
    curves = (g.cos(twice(g, m.angles)), m.cos_factor), (g.sin(twice(g, m.angles)), m.sin_factor)
    times = (g.optional(g.mul(curve, factor)) for curve, factor in curves)
    cosine, sine = (g.shared(g.unsqueeze(g.optional(g.cast(one, to=m.dtype)), [1])) for one in times)
    return g.add(g.mul(m.x, cosine), g.mul(turned(g, m.x), sine))


def by_tables(g: Graph, m: Rotary) -> Tensor:
    """The same, from tables of half a head."""
    cosine, sine = g.shared(twice(g, m.cos, "cos_spread")), g.shared(twice(g, m.sin, "sin_spread"))
    return g.add(g.mul(m.x, cosine), g.mul(turned(g, m.x), sine))


def by_rows(g: Graph, m: Rotary) -> Tensor:
    """The same, from tables of half a head without an axis for the heads."""
    cosine, sine = (g.shared(g.unsqueeze(twice(g, table), [1])) for table in (m.row_cos, m.row_sin))
    return g.add(g.mul(m.x, cosine), g.mul(turned(g, m.x), sine))


def by_constants(g: Graph, m: Rotary) -> Tensor:
    """The same, from tables that are fixed, for sizes that are."""
    return g.add(g.mul(m.x, m.whole_cos), g.mul(turned(g, m.x), m.whole_sin))


def halved(values: Array) -> Array:
    """Every other column of a fixed table, in which each stands twice."""
    return one_of_two(values[..., ::2], values[..., 1::2])


@rule(patterns=[by_pairs, by_angles, by_tables, by_rows, by_constants])
def rotary_interleaved(g: Graph, m: Rotary) -> Tensor:
    """Fuse a rotary embedding of neighbours into one RotaryEmbedding node.

    What: for each pair of neighbours a, b in the last axis of [batch, head, row, column]: a · cos − b · sin and
    b · cos + a · sin, pair by pair, or as x · cos + turned(x) · sin, where turned(x) has −b, a in the place of a, b.
    The heads may stand behind the rows.
    Numerics: rounding only.
    """
    return runtimes(g, m.x, tables(g, m, halved), interleaved=1)


@rotary_interleaved.on("onnx", opset=23)
def _(g: Graph, m: Rotary) -> Tensor:
    return standard(g, m.x, tables(g, m, halved), interleaved=1)
