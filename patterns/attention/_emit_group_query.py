"""GroupQueryAttention as its kernel requires it, with and without a past."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require
from ._decomposed_attention import AttentionScores


def require_head_size_multiple_of_8(size: Any) -> None:
    """Require heads of 8, 16, ... numbers, as GroupQueryAttention does."""
    fits = isinstance(size, int) and size % 8 == 0
    require(fits, f"GroupQueryAttention needs a head size that is a multiple of 8, but it is {size}")


def require_equal_lengths(queries: Any, keys: Any, size: Any) -> None:
    """Require as many keys as queries, as GroupQueryAttention without a cache does."""
    fits = queries is not None and queries == keys
    require(fits, "GroupQueryAttention without a cache needs as many keys as queries")
    require_head_size_multiple_of_8(size)


def require_decode_shape(batch: Any, rows: Any, size: Any) -> None:
    """Require one row or a batch of one, as GroupQueryAttention with a past does."""
    require(
        batch == 1 or rows == 1,
        "with a past, ONNX Runtime runs GroupQueryAttention only for one row of queries or for a batch of "
        "one: fix the batch (--dim batch=1), or raise the opset to 23, whose Attention supports a past for any batch",
    )
    require_head_size_multiple_of_8(size)


def emit_group_query_attention(
    g: Graph,
    parts: Iterable[Tensor],
    bias: Tensor | None,
    *,
    heads: int,
    groups: int,
    past: Any = None,
    ones: Tensor | None = None,
    **settings: Any,
) -> Any:
    """Write attention of [batch, rows, heads · columns] over keys and values of fewer heads.

    heads, groups: the numbers of heads of queries, and of keys and values.

    past: the previous keys and values.  The op also returns them together with the new ones.

    ones: a mask with a one for each row of keys that counts; without it, all count.

    settings: `scale`, `softcap`, `head_sink`, `local_window_size`, and `causal` if future keys are hidden.
    """
    q, keys, values = parts
    one = np.array([1], np.int32)
    if ones is None:
        rows = g.size_of(keys, 1) if past is None else g.add(g.size_of(past[0], 2), g.size_of(keys, 1))
        count = g.cast(rows, to="int32")
        last = g.expand(g.sub(count, one), g.size_of(keys, 0))
    else:
        count = g.cast(g.size_of(ones, 1), to="int32")
        last = g.sub(g.reduce_sum(g.cast(ones, to="int32"), [1], keepdims=0), one)
    settings |= {"seqlens_k": last, "total_sequence_length": g.squeeze(count, [0]), "attention_bias": bias}
    settings |= {} if past is None else {"past_key": past[0], "past_value": past[1]}
    settings = {"causal": 0, **settings, "num_heads": heads, "kv_num_heads": groups}
    return g.ms_group_query_attention(q, keys, values, outputs=3, **settings)


def softcap_and_sink(g: Graph, m: AttentionScores, heads: int) -> dict[str, Any]:
    """Return the attributes and inputs for a cap and for sinks."""
    settings: dict[str, Any] = {} if m.cap is None else {"softcap": m.cap}
    if m.sink is not None:
        sizes = (*[1] * (4 - m.sink.rank), *m.sink.shape) if m.sink.shape else ()
        require(sizes[1:2] == (heads,), "the number of sinks must equal the number of heads")
        if m.sink.is_constant:
            values = m.sink.values.reshape(sizes)
            require(bool(np.all(values == values[:1, :, :1])), "the sinks must be the same in all rows")
            return {**settings, "head_sink": values[0, :, 0, 0]}
        require(sizes == (1, heads, 1, 1), "the sinks must be the same in all rows")
        settings["head_sink"] = g.reshape(m.sink, [-1])
    return settings
