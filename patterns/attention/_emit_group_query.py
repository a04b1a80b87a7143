"""GroupQueryAttention as its kernel wants it, with and without a past."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require
from ._decomposed_attention import AttentionScores


def require_head_size_multiple_of_8(size: Any) -> None:
    """What GroupQueryAttention takes: heads of 8, 16, ..."""
    fits = isinstance(size, int) and size % 8 == 0
    require(fits, f"GroupQueryAttention wants heads of 8, 16, ... numbers, not {size}")


def require_equal_lengths(queries: Any, keys: Any, size: Any) -> None:
    """What it takes without a cache: as many rows of keys as of queries."""
    fits = queries is not None and queries == keys
    require(fits, "GroupQueryAttention without a cache wants keys for the queries' rows")
    require_head_size_multiple_of_8(size)


def require_decode_shape(batch: Any, rows: Any, size: Any) -> None:
    """What it takes with a past: one row, or a batch of one."""
    require(
        batch == 1 or rows == 1,
        "ONNX Runtime runs GroupQueryAttention with a past for one row of queries or a batch of one alone: fix "
        "the batch (--dim batch=1), or raise the opset to 23, whose Attention takes a past for any",
    )
    require_head_size_multiple_of_8(size)


def emit_group_query_attention(
    g: Graph, parts: Iterable[Tensor], bias: Tensor | None, heads: int, groups: int, past: Any = None, **settings: Any
) -> Any:
    """Attention of [batch, rows, heads · columns] over keys and values of fewer heads, all rows of which count.

    heads, groups: the numbers of heads of queries, and of keys and values.  past: keys and values before these; the op
    also returns them with the new ones.  settings: `scale`, `softcap`, `head_sink`, and `causal` where the future
    is hidden.
    """
    q, keys, values = parts
    rows = g.size_of(keys, 1) if past is None else g.add(g.size_of(past[0], 2), g.size_of(keys, 1))
    count = g.cast(rows, to="int32")
    last = g.expand(g.sub(count, np.array([1], np.int32)), g.size_of(keys, 0))
    settings |= {"seqlens_k": last, "total_sequence_length": g.squeeze(count, [0]), "attention_bias": bias}
    settings |= {} if past is None else {"past_key": past[0], "past_value": past[1]}
    settings = {"causal": 0, **settings, "num_heads": heads, "kv_num_heads": groups}
    return g.ms_group_query_attention(q, keys, values, outputs=3, **settings)


def softcap_and_sink(g: Graph, m: AttentionScores, heads: int) -> dict[str, Any]:
    """The attributes and inputs for a cap and for sinks."""
    settings: dict[str, Any] = {} if m.cap is None else {"softcap": m.cap}
    if m.sink is not None:
        sizes = (*[1] * (4 - m.sink.rank), *m.sink.shape) if m.sink.shape else ()
        require(sizes[1:2] == (heads,), "there is not one sink for each head")
        if m.sink.is_constant:
            values = m.sink.values.reshape(sizes)
            require(bool(np.all(values == values[:1, :, :1])), "the sinks differ from row to row")
            return {**settings, "head_sink": values[0, :, 0, 0]}
        require(sizes == (1, heads, 1, 1), "the sinks differ from row to row")
        settings["head_sink"] = g.reshape(m.sink, [-1])
    return settings
