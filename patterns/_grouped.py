"""GroupQueryAttention as its kernel wants it, with and without a past."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require
from ._layouts import size_of


def require_grouped(queries: Any, keys: Any, size: Any) -> None:
    """What GroupQueryAttention takes without a cache: as many rows of keys as of queries, and heads of 8, 16, ..."""
    require(
        queries is not None and queries == keys, "GroupQueryAttention without a cache wants keys for the queries' rows"
    )
    require(
        isinstance(size, int) and size % 8 == 0, f"GroupQueryAttention wants heads of 8, 16, ... numbers, not {size}"
    )


def require_steps(batch: Any, rows: Any, size: Any) -> None:
    """What GroupQueryAttention takes with a past: one row, or a batch of one, and heads of 8, 16, ..."""
    require(
        batch == 1 or rows == 1,
        "GroupQueryAttention takes a past only for one row of queries or for a batch of one; from opset 23 on, "
        "Attention takes it for any",
    )
    require(
        isinstance(size, int) and size % 8 == 0, f"GroupQueryAttention wants heads of 8, 16, ... numbers, not {size}"
    )


def grouped(
    g: Graph, q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, heads: int, groups: int, **numbers: Any
) -> Tensor:
    """Attention of [batch, rows, heads · columns] over keys and values of fewer heads, all rows of which count.

    heads, groups: the numbers of heads of queries, and of keys and values.  numbers: `scale`, `softcap`, and `causal`
    where the future is hidden.
    """
    total = size_of(g, keys, 1)
    numbers |= {"num_heads": heads, "kv_num_heads": groups}
    made: Tensor = _written(g, q, keys, values, None, None, bias, total, **numbers)[0]
    return made


def grouped_behind(
    g: Graph, q: Tensor, keys: Tensor, values: Tensor, past: tuple[Tensor, Tensor], bias: Tensor | None, **numbers: Any
) -> Any:
    """The same behind a past of keys and values; also gives these with what comes behind them.

    numbers: `num_heads`, `kv_num_heads`, `scale`, `softcap`.
    """
    total = g.add(size_of(g, past[0], 2), size_of(g, keys, 1))
    return _written(g, q, keys, values, *past, bias, total, **numbers)


def _written(
    g: Graph,
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    past_key: Tensor | None,
    past_value: Tensor | None,
    bias: Tensor | None,
    total: Tensor,
    **numbers: Any,
) -> Any:
    """GroupQueryAttention over all rows of keys and values.  total: how many there are with those of the past."""
    count = g.cast(total, to="int32")
    last = g.expand(g.sub(count, np.array([1], np.int32)), size_of(g, keys, 0))
    parts = (q, keys, values, past_key, past_value, last, g.squeeze(count, [0]), None, None, None, bias)
    return g.ms_group_query_attention(*parts, outputs=3, **{"causal": 0, **numbers})
