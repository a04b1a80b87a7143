"""Scores of disentangled attention (He et al., "DeBERTa", arXiv:2006.03654) as TensorRT's plugin has them, in numpy."""

import math
from typing import Any

import numpy as np

from surgeon.runtime.kernels.erf import Array


def bucket(apart: int, span: int) -> int:
    """The place from 0 to 2·span - 1 of a key so far before a query (plugin/disentangledAttentionPlugin, version 2).

    Up to half the span each distance has its own, behind that they grow by logarithm up to 2·span - 1.
    """
    middle = span // 2
    found = apart
    if abs(apart) > middle:
        # The kernel subtracts 1e-7, so that an integer with a rounding error stays that integer.
        slope = (middle - 1) / (math.log(2 * span - 1) - math.log(middle)) * (1 - 1e-7)
        found = math.ceil((math.log(abs(apart)) - math.log(middle)) * slope) + middle
        found = found if apart > 0 else -found
    return min(max(0, found + span), 2 * span - 1)


def tensorrt_disentangled_attention(
    content: Array, to_places: Array, to_queries: Array, *, span: int, factor: float, **_: Any
) -> Array:
    """TensorRT's DisentangledAttention_TRT: the sum of three parts, by one factor.

    content: [B, S, S], what queries say to keys.  to_places: [B, S, 2·span], what queries say to places.  to_queries:
    [B, S, 2·span], what keys say to places.  Returns [B, S, S].
    """
    length = content.shape[-1]
    at = np.array([[bucket(query - key, span) for key in range(length)] for query in range(length)], np.int64)
    at = at.reshape(1, length, length)
    first = np.take_along_axis(to_places, np.broadcast_to(at, content.shape), axis=-1)
    keys_first = np.broadcast_to(at.transpose(0, 2, 1), content.shape)
    second = np.take_along_axis(to_queries, keys_first, axis=-1).transpose(0, 2, 1)
    return ((content + first + second) * content.dtype.type(factor)).astype(content.dtype)
