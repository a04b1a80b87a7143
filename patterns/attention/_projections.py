"""Patterns of projections of one tensor, x @ w + b, and of attention over them."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims


class ProjectedHeads(Captures):
    """Queries, keys or values, and their layout as heads.

    split: heads after the rows. apart: heads before the rows. joined: the heads joined to rows again.
    """

    made: Tensor | Any = dims(".batch .rows columns", default=None)
    split: Tensor | Any = dims("batch rows heads size", default=None)
    apart: Tensor | Any = dims("batch heads rows size", default=None)
    joined: Tensor | Any = dims("batch rows heads*size", default=None)
    batch: Any = None
    rows: Any = None
    heads: Any = None
    columns: int = 0


class Projection(ProjectedHeads):
    """x @ w, optionally + b, of [batch, rows, columns].

    flat: the rows of all batches, as a Gemm reads them. turned: whether w is transposed for the Gemm.
    """

    w: Tensor = dims("inputs outputs")
    b: Tensor | Any = None
    flat: Tensor | Any = dims("_ .inner", default=None)
    turned: int = 0
    inner: Any = None


class AttentionLayer(Captures):
    """Attention over parts of one tensor, with a bias of the scores, or a mask that is expanded.

    qkv_bias: a bias of queries, keys and values that the attention itself adds.
    """

    x: Tensor = dims("batch rows inner")
    q: ProjectedHeads
    k: ProjectedHeads
    v: ProjectedHeads
    qkv_bias: Tensor | Any = None
    mask: Tensor | Any = dims("_ _ _ _", default=None)
    bias: Tensor | Any = None
    attributes: dict[str, Any]


class PackedProjection(AttentionLayer):
    """Attention over parts of one projection. five: the projection with an axis of three after the rows."""

    whole: Projection
    five: Tensor | Any = dims("batch rows 3 _ _", default=None)


class PackedProjectionWithPast(PackedProjection):
    """The same over keys and values with a past."""

    past: Tensor = dims("2 _ _ _ _")


class SeparateProjections(AttentionLayer):
    """Attention over three projections of one tensor."""

    q: Projection
    k: Projection
    v: Projection


def linear(g: Graph, x: Tensor, m: Any) -> Any:
    """x @ w, optionally + b, optionally as a Gemm of the rows of all batches. m: a record with Projection's fields."""
    product = g.matmul(x, m.w)
    m.flat = g.shared(g.reshaped(x))
    flat = g.reshaped(g.any_of(g.gemm(m.flat, m.w, m.b, transB=m.turned), g.gemm(m.flat, m.w, transB=m.turned)))
    m.made = g.any_of(g.add(product, m.b), product, g.add(flat, m.b), flat)
    return m.made


def multi_head_attention(g: Graph, m: AttentionLayer, q: Tensor, k: Tensor, v: Tensor) -> Any:
    """MultiHeadAttention, optionally with a bias, or with a mask that is expanded to the rows and keys.

    The arithmetic that computes the shape of the mask may read queries and keys.  It is removed with them.
    """
    spread = g.expand(m.mask, g.any_tensor())
    forms = (g.ms_multi_head_attention(q, k, v, m.qkv_bias, None, x, **m.attributes) for x in (m.bias, spread))
    return g.any_of(*forms)


def maybe_heads_first(g: Graph, m: ProjectedHeads, rows: Tensor) -> Tensor:
    """Rows, or the heads into which they are split."""
    m.apart = g.heads_first(g.reshaped(rows))
    return g.any_of(rows, m.apart)
