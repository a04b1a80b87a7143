"""What rotary embeddings have in common: their tables, and how the ops that take them are written."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from surgeon import Graph, Match, Tensor, require
from ._layouts import size_of

Array = np.ndarray[Any, Any]


class Tables(NamedTuple):
    """Cosine and sine of [batch, row, column], for half a head each, and whether the batch is one for all.

    rows: the axis of the input for whose places there are rows; the heads are the other of 1 and 2.
    """

    cos: Any
    sin: Any
    is_one: bool
    rows: int = 2


def of_heads(x: Tensor) -> int:
    """The size of a head, where x is [batch, head, row, column]."""
    require(x.rank == 4, "the input has other axes than batch, head, row, column")
    size = x.shape[3]
    require(isinstance(size, int) and size % 2 == 0, "the size of a head is unknown or odd")
    return int(size)


def one_of_two(first: Array, second: Array) -> Array:
    """One of the two equal parts of a fixed table, as [batch, row, column]."""
    require(first.shape == second.shape and bool(np.all(first == second)), "unlike halves of a table")
    require(first.ndim in (2, 3, 4), "the tables have other axes than batch, head, row, column")
    require(first.ndim == 2 or first.shape[-3] == 1, "the tables differ from head to head")
    return first.reshape(-1, *first.shape[-2:])


def require_fits(x: Tensor, batch: Any, rows: Any, columns: Any, axis: int = 2) -> None:
    """Refuse tables that are broadcast along other axes than batch and heads, or to which x is."""
    require(columns == x.shape[3] // 2, "the tables are not of half a head")
    for size, wanted in ((rows, x.shape[axis]), *(((batch, x.shape[0]),) if batch != 1 else ())):
        fixed = 1 in (size, wanted) or (isinstance(size, int) and isinstance(wanted, int))
        require(size == wanted or not fixed, "the tables have other batches or rows than the input")


def tables(g: Graph, match: Match, x: Tensor, halved: Callable[[Array], Array]) -> Tables:
    """The tables that a match found.  halved: what takes one of the two equal parts of a fixed table."""
    require(x.dtype is not None, "the dtype of the input is unknown")
    if "whole_cos" in match.bound:
        first, second = (halved(match[name].values).astype(x.dtype) for name in ("whole_cos", "whole_sin"))
        require(first.shape == second.shape, "the tables' shapes differ or are unknown")
        require_fits(x, *first.shape)
        return Tables(first, second, len(first) == 1)
    if "angles" in match.bound:
        angles = match["angles"]
        require(angles.rank == 3, "the angles' shape is unknown")
        require_fits(x, *angles.shape)
        return Tables(*curves(g, match, angles), angles.shape[0] == 1)
    if "spread" in match.bound:
        angles = match["spread"]
        return given(g, x, curves(g, match, angles), (angles.shape, angles.shape), angles.rank)
    if "row_cos" in match.bound:
        cos, sin = match["row_cos"], match["row_sin"]
        require(cos.shape is not None and sin.shape == cos.shape, "the tables' shapes differ or are unknown")
        require(cos.rank == 3, "the tables have other axes than batch, row, column")
        require_fits(x, *cos.shape)
        return Tables(cos, sin, cos.shape[0] == 1)
    cos, sin = match["cos"], match["sin"]
    if "cos_spread" not in match.bound:
        return given(g, x, (cos, sin), (cos.shape, sin.shape), cos.rank)
    spread = [match[name].shape for name in ("cos_spread", "sin_spread")]
    return given(g, x, (cos, sin), (spread[0][:-1], spread[1][:-1]), cos.rank)


def curves(g: Graph, match: Match, angles: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of angles, each with the factor and the dtypes that the match found."""
    made = []
    for curve, name in ((g.cos(angles), "cos_factor"), (g.sin(angles), "sin_factor")):
        times = g.mul(curve, match[name]) if name in match.bound and match[name] != 1.0 else curve
        for dtype in ("dtype", "last"):
            times = g.cast(times, to=match[dtype]) if dtype in match.bound else times
        made.append(times)
    return made[0], made[1]


def given(g: Graph, x: Tensor, found: tuple[Tensor, Tensor], sizes: tuple[Any, Any], rank: int | None) -> Tables:
    """Tables of half a head, as they are multiplied with it: of sizes with 1 for the heads, or no axis for them."""
    size = sizes[0]  # with the axes that were added to tables of this rank
    require(size is not None and sizes[1] == size, "the tables' shapes differ or are unknown")
    require(len(size) in (2, 3, 4), "the tables have other axes than batch, head, row, column")
    axis = 1 if len(size) > 2 and size[-2] == 1 != size[-3] else 2  # heads stand behind the rows, or before
    batch, rows, columns = size[0] if len(size) == 4 else 1, size[-3] if axis == 1 else size[-2], size[-1]
    require(axis == 1 or len(size) == 2 or size[-3] == 1, "the tables differ from head to head")
    require_fits(x, batch, rows, columns, axis)
    if batch == 1:
        cos, sin = (g.reshape(item, [1, -1, columns]) for item in found)
    else:
        cos, sin = (item if rank == 3 else g.squeeze(item, [3 - axis]) for item in found)
    return Tables(cos, sin, batch == 1, axis)


Write = Callable[..., Tensor]


def by_heads(write: Write) -> Write:
    """What writes an op that takes [batch, head, row, column] or joined heads, for heads behind rows too."""

    def for_both(g: Graph, x: Tensor, found: Tables, **attributes: int) -> Tensor:
        if found.rows == 2:
            return write(g, x, found, x.shape[3], **attributes)
        heads, size = x.shape[2:]
        require(isinstance(heads, int), "the number of heads is unknown")
        rows = g.reshape(x, [0, 0, heads * size])
        return g.reshape(write(g, rows, found, size, num_heads=heads, **attributes), [0, 0, heads, size])

    return for_both


@by_heads
def runtimes(g: Graph, x: Tensor, found: Tables, size: int, **attributes: int) -> Tensor:
    """com.microsoft::RotaryEmbedding with these tables."""
    if found.is_one:
        places: Any = np.zeros(1, np.int64)
    else:
        rows = g.slice(g.shape(found.cos), [0], [2], [0])
        count = g.reduce_prod(rows, axes=[0], keepdims=0)
        places = g.reshape(g.range(np.int64(0), count, np.int64(1)), rows)
    cosine, sine = (
        item.reshape(-1, size // 2) if isinstance(item, np.ndarray) else g.reshape(item, [-1, size // 2])
        for item in (found.cos, found.sin)
    )
    made: Tensor = g.ms_rotary_embedding(x, places, cosine, sine, **attributes)
    return made


@by_heads
def standard(g: Graph, x: Tensor, found: Tables, size: int, **attributes: int) -> Tensor:
    """RotaryEmbedding with these tables."""
    cosine, sine = found.cos, found.sin
    if found.is_one:
        batch = size_of(g, x, 0)
        shape = g.concat(batch, np.ones(2, np.int64), axis=0)
        cosine, sine = g.expand(cosine, shape), g.expand(sine, shape)
    made: Tensor = g.rotary_embedding(x, cosine, sine, **attributes)
    return made
