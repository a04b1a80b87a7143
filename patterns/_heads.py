"""Keys and values as heads: beside each other in one axis, copied for several heads of queries, or behind a past."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require
from ._layouts import joined, reshaped, rows_of_heads

MEANT = {"num_heads", "scale", "mask_filter_value"}  # attributes that mean the same whatever the rows stand for
CASTS = ("float32", "float16")


class Heads(Captures):
    """Keys or values, of which each head may be copied for several of queries.

    x: the heads themselves.  joined: they beside each other in one axis.  copies, spread: they, each several times, and
    these as heads of their own.
    """

    x: Tensor = dims("batch heads rows columns")
    copies: Tensor | None = dims("batch heads number rows columns", default=None)
    spread: Tensor | None = dims("batch heads*number rows columns", default=None)
    joined: Tensor | None = dims("batch rows heads*columns", default=None)
    heads: int
    columns: Any
    number: int = 1


class Cache(Heads):
    """Keys or values that come behind those of a past; x: both."""

    past: Tensor = dims("_ heads before columns")
    new: Tensor = dims("batch heads after columns")
    before: Any
    after: Any
    columns: int


class Attended(Captures):
    """An attention that is one node."""

    q: Tensor
    bias: Tensor | None = None
    attributes: dict[str, Any]


class OverHeads(Attended):
    """The same over heads of keys and values, joined or copied."""

    k: Heads
    v: Heads


class BehindPast(Attended):
    """The same over keys and values behind those of a past, or copies of them."""

    k: Cache
    v: Cache


def behind(g: Graph, m: Cache) -> Tensor:
    """Heads behind those of a past."""
    m.x = g.concat(m.past, m.new, axis=2)
    return m.x


def copied(g: Graph, m: Heads) -> Tensor:
    """Each head several times, one copy after the other."""
    m.copies = g.expand(g.unsqueeze(m.x, [2]), g.any_tensor())
    m.spread = reshaped(g, m.copies)
    return m.spread


def maybe_joined(g: Graph, x: Tensor) -> Tensor:
    """Heads as they are, or beside each other in the last axis."""
    return g.any_of(x, joined(g, x))


def maybe_cast(g: Graph, x: Tensor) -> Tensor:
    """A tensor, perhaps in another dtype."""
    return g.any_of(x, *(g.cast(x, to=dtype) for dtype in CASTS))


def of_copies(g: Graph, m: OverHeads) -> Any:
    """MultiHeadAttention over copies of keys and values, joined or not, and perhaps cast."""
    keys, values = (maybe_cast(g, maybe_joined(g, copied(g, x))) for x in (m.k, m.v))
    return g.ms_multi_head_attention(m.q, keys, values, attention_bias=m.bias, **m.attributes)


def rows_of(g: Graph, x: Tensor) -> Tensor:
    """The heads of [batch, heads, rows, columns] beside each other in the last axis."""
    return rows_of_heads(g, x, x.shape[1] * x.shape[3])


def are_groups(m: OverHeads) -> None:
    """Keys and values are of equally many heads."""
    require(m.k.heads == m.v.heads, "keys and values have different numbers of heads")


def require_one_length(k: Cache, v: Cache) -> None:
    """Pasts of one length and of equally many heads."""
    require(k.heads == v.heads, "keys and values have different numbers of heads")
    require(k.before == v.before or k.after == v.after, "the pasts of keys and values may differ in length")


def is_a_cache(m: BehindPast) -> None:
    """Keys and values behind pasts of one length."""
    require_one_length(m.k, m.v)


def require_plain(m: BehindPast) -> None:
    """Values of the size of keys, and no attribute that a past changes, as MultiHeadAttention wants it."""
    others = m.attributes.keys() - MEANT
    require(not others, f"with a past, {', '.join(sorted(others))} would mean something else")
    require(m.k.columns == m.v.columns, "keys and values are of different size")
