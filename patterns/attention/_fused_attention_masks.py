"""The keys that an attention node sees: all keys, keys that are not padding, or keys up to the row's position."""

from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require
from ._fused_attention import FusedAttention

DEFAULT_MASK_FILTER_VALUE = -10000.0  # added to the scores of padding by default (ORT contrib ops, Attention-1)


def require_known_lengths(m: FusedAttention) -> None:
    """Require the known sizes on which the meaning of a node depends."""
    ranks = {m.q.rank, m.k.rank, m.v.rank}
    require(
        ranks <= {3, 4}, "queries, keys and values must have the axes batch, row, column, or batch, head, row, column"
    )
    if m.total_sequence_length is not None:
        require(attends_to_all_keys(m), "some rows of the keys are not used")
        require(
            not m.is_causal,
            "the kernel does not compute hidden scores, so they cannot overflow as in the decomposed form",
        )
    elif m.is_causal and m.onnx_output is None:
        alike = m.q.shape[1] == m.k.shape[-2]
        require(alike, "a causal attention op of ONNX Runtime needs as many keys as queries")


def attends_to_all_keys(m: FusedAttention) -> bool:
    """Return whether a GroupQueryAttention without a past uses all rows of its keys, in each sequence of the batch."""
    if m.k.rank != 3 or m.total_sequence_length.elements != [m.k.shape[1]]:
        return False
    elements = (m.seqlens_k if m.seqlens_k_source is None else m.seqlens_k_source).elements
    return elements is not None and all(element == m.k.shape[1] - 1 for element in elements)


def padding_bias(g: Graph, m: FusedAttention, dtype: Any) -> Tensor | None:
    """Return zeros for valid keys and a low number for padding, [batch, 1, rows, keys], or None without a mask.

    The mask may be the number of valid keys of each sequence, counted from the first key, or a flag for each key.
    """
    index, queries, keys = m.mask_index, m.q, m.q if m.k is None else m.k
    if index is None:
        return None
    require(index.rank in (1, 2), "the shape of the padding mask is unknown")
    rows, columns = (g.size_of(x, x.rank - 2) for x in (queries, keys))
    count = keys.shape[-2]
    if m.past_key is not None:
        require(m.past_key.shape is not None, "the shape of the past is unknown")
        columns, count = g.add(g.size_of(m.past_key, 2), columns), m.past_key.shape[2] + count
    if index.rank == 1:
        require(index.shape == queries.shape[:1], "the padding mask must have one number for each sequence")
        last = g.squeeze(g.cast(columns, to="int32"), [0])
        counts = g.less(g.range(np.int32(0), last, np.int32(1)), g.unsqueeze(index, [1]))
    else:
        batch, own = index.shape
        is_whole = own == count or (m.past_key is not None and own != keys.shape[-2] and not isinstance(own, int))
        require(batch == queries.shape[0] and is_whole, "the padding mask must have the axes batch and keys")
        counts = g.cast(index, to="bool")
    low = np.array(m.attributes.get("mask_filter_value", DEFAULT_MASK_FILTER_VALUE), dtype)
    bias = g.unsqueeze(g.where(counts, np.zeros((), dtype), low), [1, 2])
    return g.spread(bias, [1, 1, rows, 1])
