"""Keys and values that come behind those of a past: how rules look for them, and what ops that take a past want."""

from typing import Any

from surgeon import Graph, Tensor, require
from ._layouts import joined, rows_of_heads

MEANT = {"num_heads", "scale", "mask_filter_value"}  # attributes that mean the same whatever the rows stand for


def behind(g: Graph, past: Tensor, x: Tensor, name: str) -> Tensor:
    """Heads of [batch, heads, rows, columns] behind those of a past."""
    return g.capture(name, g.concat(past, x, axis=2))


def maybe_joined(g: Graph, x: Tensor) -> Tensor:
    """Heads as they are, or beside each other in the last axis."""
    return g.any_of(x, joined(g, x))


def is_a_cache(k: Tensor, v: Tensor, past_key: Tensor, past_value: Tensor) -> None:
    """Pasts of one length, with the heads of what comes behind them."""
    parts = (past_key, past_value, k, v)
    require(all(x.rank == 4 for x in parts), "keys or values have not four known axes")
    for past, x in ((past_key, k), (past_value, v)):
        heads, columns = x.shape[1], x.shape[3]
        require(isinstance(heads, int) and isinstance(columns, int), "the number of heads, or their size, is unknown")
        require((past.shape[1], past.shape[3]) == (heads, columns), "the past has other heads than what comes behind")
    require(k.shape[1] == v.shape[1], "keys and values have different numbers of heads")
    is_even = past_key.shape[2] == past_value.shape[2] or k.shape[2] == v.shape[2]
    require(is_even, "the pasts of keys and values may differ in length")


def is_plain(k: Tensor, v: Tensor, attributes: dict[str, Any]) -> None:
    """Values of the size of keys, and no attribute that a past changes, as MultiHeadAttention wants it."""
    others = attributes.keys() - MEANT
    require(not others, f"with a past, {', '.join(sorted(others))} would mean something else")
    require(k.shape[3] == v.shape[3], "keys and values are of different size")


def rows_of(g: Graph, x: Tensor) -> Tensor:
    """The heads of [batch, heads, rows, columns] beside each other in the last axis."""
    return rows_of_heads(g, x, x.shape[1] * x.shape[3])
