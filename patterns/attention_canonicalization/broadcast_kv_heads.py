"""Query heads that share keys and values by broadcasting along a separate axis."""

from typing import Any

import numpy as np

from surgeon import Captures, Graph, Tensor, dims, require, rule


class Shared(Captures):
    """Queries by groups, keys and values of each group, the scale of the scores, and their bias.

    k: the keys before their Transpose, if it directly precedes the product.

    wide, narrow: the dtypes to which the scores and the weights are cast.
    """

    q: Tensor = dims("batch groups copies rows columns")
    k: Tensor | Any = dims("batch groups 1 keys columns", default=None)
    kt: Tensor = dims("batch groups 1 columns keys")
    v: Tensor = dims("batch groups 1 keys width")
    scale: float | Any = None
    mask: Tensor | Any = None
    wide: int | Any = None
    narrow: int | Any = None
    groups: int
    copies: int
    columns: int
    width: int


def by_groups(g: Graph, m: Shared) -> Tensor:
    """Attention with several heads of queries in each group."""
    m.kt = g.any_of(g.transpose(m.k, perm=[0, 1, 2, 4, 3]), g.any_tensor())
    return attended(g, m, m.kt)


def attended(g: Graph, m: Shared, kt: Tensor) -> Tensor:
    """softmax(scale · q·kᵀ + mask)·v."""
    scores = g.optional(g.mul(g.matmul(m.q, kt), m.scale))
    hidden = g.optional(g.add(g.optional(g.cast(scores, to=m.wide)), m.mask))
    return g.matmul(g.optional(g.cast(g.softmax(hidden, axis=-1), to=m.narrow)), m.v)


@rule(patterns=[by_groups], target={"ort": 1, "onnx": 23}, dtypes=["float32", "float16"])
def broadcast_kv_heads(g: Graph, m: Shared) -> Tensor:
    """Give each head of queries its keys and values, so that the attention rules match and turn copies into groups.

    What: queries of [batch, groups, copies, rows, columns] with keys and values of [batch, groups, 1, keys, ...], which
    the product broadcasts. einsum also writes grouped queries like this.
    Numerics: none.
    """
    heads = m.groups * m.copies
    require(m.copies > 1, "each group has only one head of queries")
    rows, mask = g.size_of(m.q, 3), m.mask
    if mask is not None:
        require(mask.shape is not None and set(mask.shape[-4:-2]) <= {1}, "the mask must be the same for all heads")
        mask = g.squeeze(mask, [2]) if mask.rank == 5 else mask
    q = g.reshape(m.q, g.concat(np.array([0, heads]), rows, np.array([m.columns]), axis=0))
    keys = g.transpose(g.squeeze(m.kt, [2]), perm=[0, 1, 3, 2]) if m.k is None else g.squeeze(m.k, [2])
    k = g.repeated_heads(keys, m.groups, m.copies, m.columns)
    v = g.repeated_heads(g.squeeze(m.v, [2]), m.groups, m.copies, m.width)
    made = attended(g, m.but(q=q, v=v, mask=mask), g.transpose(k, perm=[0, 1, 3, 2]))
    return g.reshape(made, g.concat(np.array([0, m.groups, m.copies]), rows, np.array([m.width]), axis=0))
