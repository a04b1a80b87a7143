"""GroupQueryAttention as its kernel wants it, with and without a past."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require
from ._layouts import size_of


def require_eights(size: Any) -> None:
    """What GroupQueryAttention takes: heads of 8, 16, ..."""
    fits = isinstance(size, int) and size % 8 == 0
    require(fits, f"GroupQueryAttention wants heads of 8, 16, ... numbers, not {size}")


def require_grouped(queries: Any, keys: Any, size: Any) -> None:
    """What it takes without a cache: as many rows of keys as of queries."""
    fits = queries is not None and queries == keys
    require(fits, "GroupQueryAttention without a cache wants keys for the queries' rows")
    require_eights(size)


def require_steps(batch: Any, rows: Any, size: Any) -> None:
    """What it takes with a past: one row, or a batch of one."""
    require(
        batch == 1 or rows == 1,
        "GroupQueryAttention takes a past only for one row of queries or for a batch of one; from opset 23 on, "
        "Attention takes it for any",
    )
    require_eights(size)


def grouped(
    g: Graph, parts: Iterable[Tensor], bias: Tensor | None, heads: int, groups: int, past: Any = None, **numbers: Any
) -> Any:
    """Attention of [batch, rows, heads · columns] over keys and values of fewer heads, all rows of which count.

    heads, groups: the numbers of heads of queries, and of keys and values.  past: keys and values before these; the op
    also gives them with what comes behind.  numbers: `scale`, `softcap`, and `causal` where the future is hidden.
    """
    q, keys, values = parts
    rows = size_of(g, keys, 1) if past is None else g.add(size_of(g, past[0], 2), size_of(g, keys, 1))
    count = g.cast(rows, to="int32")
    last = g.expand(g.sub(count, np.array([1], np.int32)), size_of(g, keys, 0))
    told: dict[str, Any] = {"seqlens_k": last, "total_sequence_length": g.squeeze(count, [0]), "attention_bias": bias}
    told |= {} if past is None else {"past_key": past[0], "past_value": past[1]}
    numbers = {"causal": 0, **numbers, "num_heads": heads, "kv_num_heads": groups}
    return g.ms_group_query_attention(q, keys, values, **told, outputs=3, **numbers)
