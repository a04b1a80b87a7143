"""com.microsoft::Attention of one tensor, with the weights of its projections beside each other."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from surgeon import Graph, Tensor, require
from ._projections import Layer, Projection

Array = np.ndarray[Any, np.dtype[Any]]


def weights(g: Graph, made: Sequence[Projection]) -> Tensor:
    """The weights of projections beside each other: [columns of x, columns of all]."""
    turned = [one.by_turned is not None for one in made]
    parts: list[Any] = [one.w for one in made]
    is_turned = all(turned)
    if not is_turned:
        parts = [g.transpose(w, perm=[1, 0]) if flag else w for w, flag in zip(parts, turned, strict=True)]
    whole = parts[0] if len(parts) == 1 else g.concat(*parts, axis=0 if is_turned else 1)
    return g.transpose(whole, perm=[1, 0]) if is_turned else whole


def biases(made: Sequence[Projection], dtype: Any) -> Array:
    """The biases of projections, one behind the other; zeros where there is none."""
    found = [np.zeros(0, dtype)]
    for one in made:
        values = np.zeros(1, dtype) if one.b is None else one.b.values
        is_row = values.size in (1, one.columns) and values.shape[-1:] in ((), (values.size,))
        require(is_row and values.ndim <= 3, "a bias has other axes than that of the columns")
        found.append(np.broadcast_to(values.reshape(-1), (one.columns,)))
    return np.concatenate(found)


def whole(g: Graph, m: Layer, made: Sequence[Projection], sizes: Sequence[int]) -> Any:
    """com.microsoft::Attention of the projections of x, of so many columns for queries, keys and values."""
    attributes = dict(m.attributes)
    heads = attributes["num_heads"]
    require(sizes[0] == sizes[1], "queries and keys have different numbers of columns")
    require(all(size % heads == 0 for size in sizes), "the columns cannot be shared among the heads")
    if sizes[2] != sizes[0]:
        attributes["qkv_hidden_sizes"] = list(sizes)
    if m.factor is not None:
        scale = m.factor * (attributes.get("scale", 0.0) or (sizes[0] // heads) ** -0.5)
        require(isfinite(scale) and np.float32(scale) != 0, "a scale of 0 means another to ONNX Runtime")
        attributes["scale"] = scale
    packed = g.literal(biases(made, m.x.dtype))  # also where all are zeros: the CPU's kernel needs them
    rows = None if m.mask is None else g.size_of(m.x, 1)
    bias = m.bias if rows is None else g.spread(m.mask, [1, 1, rows, rows])
    return g.ms_attention(m.x, weights(g, made), packed, attention_bias=bias, **attributes)
