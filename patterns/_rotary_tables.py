"""The tables that rotary embeddings turn heads by, as patterns look for them."""

from collections.abc import Callable

from surgeon import Captures, Constant, Graph, Tensor, dims, require
from ._layouts import ABSENT, reshaped
from ._rotary_parts import HALVES


class Table(Captures):
    """Cosines or sines, each column of which stands twice.

    half: each column once, or its angles, if the curve is `curved` of them; doubled: twice.  fixed: both copies.  Rows
    of these are taken by `places`, or from `start` to `end`, of fixed columns perhaps the `first` or the `second` half.
    factor, dtype, last: of what makes the table out of these.  whole: it, as heads are multiplied with it.
    """

    half: Tensor = ABSENT
    doubled: Tensor = ABSENT
    fixed: Constant = dims("_ _", "_ _ _", "_ _ _ _", default=ABSENT)
    places: Tensor = ABSENT
    start: Tensor = ABSENT
    end: Tensor = ABSENT
    axes: list[int] = ABSENT
    first: Tensor = ABSENT
    second: Tensor = ABSENT
    curved: Tensor = ABSENT
    factor: float = 1.0
    dtype: int = ABSENT
    last: int = ABSENT
    whole: Tensor = ABSENT


def keeps_columns(y: Tensor, x: Tensor) -> None:
    """Axes of one are put in or taken out, before the last."""
    require(x.shape is not None and y.shape is not None, "the shape of a table is unknown")
    own, made = ([size for size in shape if size != 1] for shape in (x.shape, y.shape))
    require(own == made and y.shape[-1:] == x.shape[-1:], "a table is reshaped")


def lifted(g: Graph, x: Tensor) -> Tensor:
    """A table with axes of one before its columns, or without."""
    x = g.named(x)
    made = g.shared(g.any_of(g.unsqueeze(x, g.any_tensor()), reshaped(g, x)))
    return g.any_of(x, g.such_that(made, keeps_columns, x))


def is_before_copies(spread: Tensor, table: Tensor) -> None:
    """A new axis stands behind all others, and perhaps more before the columns."""
    require(table.shape is not None and spread.shape is not None, "the shape of a table is unknown")
    require(spread.shape[-2:] == (table.shape[-1], 1), "a table is copied along another axis")


def is_twice(whole: Tensor, table: Tensor) -> None:
    """Each column stands twice, and nothing else is copied."""
    require(table.shape is not None and whole.shape is not None, "the shape of a table is unknown")
    ahead, columns = [size for size in table.shape[:-1] if size != 1], table.shape[-1]
    require(isinstance(columns, int), "the shape of a table is unknown")
    own = [size for size in whole.shape[:-1] if size != 1]
    require(own == ahead and whole.shape[-1] == 2 * columns, "a table is joined otherwise than column by column")


def repeats_columns(_: Tensor, repeats: Tensor) -> None:
    """The last axis is there twice, and the others once."""
    found = repeats.elements
    require(found is not None and found == [*[1] * (len(found) - 1), 2], "a table is repeated along another axis")


def twice(g: Graph, table: Tensor, axis: int) -> Tensor:
    """Each column of a table two times: one copy of all behind the other, or column by column."""
    if axis == HALVES:
        repeats = g.any_tensor()
        repeated = g.such_that(g.tile(table, repeats), repeats_columns, repeats)
        return g.any_of(*(g.shared(x) for x in (g.concat(table, table, axis=-1), repeated)))
    spread = g.such_that(g.unsqueeze(table, g.any_tensor()), is_before_copies, table)
    copies = [g.expand(spread, g.any_tensor()), g.tile(spread, g.any_tensor()), g.concat(spread, spread, axis=-1)]
    return g.such_that(g.shared(reshaped(g, g.any_of(*copies))), is_twice, table)


def whole(g: Graph, m: Table, curve: Callable[[Tensor], Tensor], axis: int) -> Tensor:
    """A table of whole heads: doubled, or fixed, and the curve behind or before that."""
    m.doubled = twice(g, m.half, axis)
    both = g.any_of(m.doubled, m.fixed)
    bounds = (both, m.start, m.end, m.axes)
    taken = [g.gather(both, m.places, axis=0), g.slice(*bounds), g.slice(*bounds, [1])]
    rows = g.named(g.any_of(*(g.shared(x) for x in taken), both))
    m.first, m.second = g.cut(rows, 2, -1)
    plain = lifted(g, g.any_of(g.shared(m.first), g.shared(m.second), rows))
    m.curved = g.shared(curve(plain))
    times = g.any_of(m.curved, plain)
    times = g.any_of(times, g.mul(times, m.factor))  # products are never shared
    times = lifted(g, g.any_of(times, g.shared(g.cast(times, to=m.dtype))))
    m.whole = g.any_of(times, g.shared(g.cast(times, to=m.last)))
    return m.whole
