"""GroupQueryAttention as its kernel wants it, for attention without a cache of its own."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require


def require_grouped(queries: Any, keys: Any, size: Any) -> None:
    """What GroupQueryAttention takes without a cache: as many rows of keys as of queries, and heads of 8, 16, ..."""
    require(
        queries is not None and queries == keys, "GroupQueryAttention without a cache wants keys for the queries' rows"
    )
    require(
        isinstance(size, int) and size % 8 == 0, f"GroupQueryAttention wants heads of 8, 16, ... numbers, not {size}"
    )


def grouped(
    g: Graph, q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, heads: int, groups: int, **numbers: Any
) -> Tensor:
    """Attention of [batch, rows, heads · columns] over keys and values of fewer heads, all rows of which count.

    heads, groups: the numbers of heads of queries, and of keys and values.  numbers: `scale`, `softcap`.
    """
    shape = g.shape(keys)
    total = g.cast(g.slice(shape, [1], [2], [0]), to="int32")
    last = g.expand(g.sub(total, np.array([1], np.int32)), g.slice(shape, [0], [1], [0]))
    made: Tensor = g.ms_group_query_attention(
        q,
        keys,
        values,
        None,
        None,
        last,
        g.squeeze(total, [0]),
        None,
        None,
        None,
        bias,
        num_heads=heads,
        kv_num_heads=groups,
        causal=0,
        outputs=3,
        **numbers,
    )[0]
    return made
