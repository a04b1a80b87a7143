"""Norms, ScatterElements and disentangled attention in numpy, as TensorRT's plugins compute them."""

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from surgeon.runtime.kernels.erf import Array

_EPSILON = 1e-5
_REDUCED = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def _normal(x: Array, groups: int, epsilon: float) -> Array:
    """Each group of channels minus its mean, divided by √(variance + ε), in float64: [N · groups, elements].

    float64 is wider than the plugin's dtype, so rounding of a float kernel does not count against the pattern.
    """
    rows = x.reshape(len(x) * groups, prod(x.shape[1:]) // groups).astype(np.float64)
    centred = rows - rows.mean(axis=-1, keepdims=True)
    found: Array = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + epsilon)
    return found


def _along_channels(y: Array, x: Array, scale: Array, bias: Array) -> Array:
    shape = (-1, *(1 for _ in x.shape[2:]))
    return (y.reshape(x.shape) * scale.reshape(shape) + bias.reshape(shape)).astype(x.dtype)


def tensorrt_group_norm(
    x: Array, scale: Array, bias: Array, *, num_groups: int, eps: float = _EPSILON, **_: Any
) -> Array:
    """TensorRT's GroupNormalizationPlugin, like its Python reference.  x: [N, C, H, W].  scale, bias: [C]."""
    return _along_channels(_normal(x, num_groups, eps), x, scale, bias)


def tensorrt_instance_norm(
    x: Array,
    *,
    scales: Sequence[float],
    bias: Sequence[float],
    epsilon: float = _EPSILON,
    relu: int = 0,
    alpha: float = 0.0,
    **_: Any,
) -> Array:
    """TensorRT's InstanceNormalization_TRT: a norm of each channel, then LeakyRelu if `relu`.  x: [N, C, (D,) H, W]."""
    normal = _normal(x, x.shape[1], epsilon)
    y = _along_channels(normal, x, *(np.asarray(one, normal.dtype) for one in (scales, bias)))
    return np.where(y < 0, y * y.dtype.type(alpha), y) if relu else y


def tensorrt_scatter_elements(
    data: Array, indices: Array, updates: Array, *, reduction: str, axis: int = 0, **_: Any
) -> Array:
    """TensorRT's ScatterElements, which does not support negative indices and covers all other axes."""
    if (indices < 0).any():
        raise ValueError("the plugin ScatterElements does not support negative indices")
    found = data.copy()
    at = list(np.indices(indices.shape, sparse=True))
    at[axis] = indices
    _REDUCED[reduction].at(found, tuple(at), updates)
    return found


PLUGIN_NORMS: dict[tuple[str, str], Callable[..., Any]] = {
    ("trt.plugins", "GroupNormalizationPlugin"): tensorrt_group_norm,
    ("trt.plugins", "InstanceNormalization_TRT"): tensorrt_instance_norm,
    ("trt.plugins", "ScatterElements"): tensorrt_scatter_elements,
}
"""Formulas by domain and name."""


def bucket(apart: int, span: int) -> int:
    """The bucket, 0 to 2·span - 1, of a key `apart` before its query (plugin/disentangledAttentionPlugin, version 2).

    Up to half the span, each distance has its own bucket.  Beyond that, buckets grow logarithmically.
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
    """TensorRT's DisentangledAttention_TRT: the sum of three parts, times one factor.

    content: [B, S, S], scores of queries and keys.  to_places: [B, S, 2·span], scores of queries and relative
    positions.  to_queries: [B, S, 2·span], scores of keys and relative positions.  Returns [B, S, S].
    """
    length = content.shape[-1]
    at = np.array([[bucket(query - key, span) for key in range(length)] for query in range(length)], np.int64)
    at = at.reshape(1, length, length)
    first = np.take_along_axis(to_places, np.broadcast_to(at, content.shape), axis=-1)
    keys_first = np.broadcast_to(at.transpose(0, 2, 1), content.shape)
    second = np.take_along_axis(to_queries, keys_first, axis=-1).transpose(0, 2, 1)
    return ((content + first + second) * content.dtype.type(factor)).astype(content.dtype)
