"""Projections of one tensor, x @ w + bias, and attention of them, as patterns look for it."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from surgeon import Captures, Constant, Graph, Tensor, dims, require
from ._layouts import ABSENT, HEADS_FIRST, reshaped

NAMES = ("queries", "keys", "values")
parts_of = attrgetter("q", "k", "v")


class Part(Captures):
    """Queries, keys or values, and the heads that they come as.

    begin: where they are cut out of a projection.  apart: the heads.  joined: these beside each other again.  split,
    turned: the heads of all batches, rows before heads, and the heads with columns before rows.
    """

    made: Tensor = dims("batch rows columns", default=None)
    begin: Tensor = ABSENT
    apart: Tensor = ABSENT
    joined: Tensor = ABSENT
    split: Tensor = ABSENT
    turned: Tensor = ABSENT
    columns: int = 0


class Projection(Part):
    """x @ w, perhaps + b, of [batch, rows, columns].

    flat: the rows of all batches, as a Gemm takes them.  by_turned: the product, if w is transposed for it.
    """

    w: Constant = dims("inputs outputs")
    b: Constant = ABSENT
    flat: Tensor = dims("_ inner", default=None)
    by_turned: Tensor = ABSENT
    inner: Any = None


class Layer(Captures):
    """Attention of parts of one tensor, with what is added to the scores: a bias, or a mask that is spread.

    factor: what the queries are multiplied with.
    """

    x: Tensor = dims("batch rows inner")
    factor: float = ABSENT
    mask: Tensor = ABSENT
    bias: Tensor = ABSENT
    attributes: dict[str, Any]
    inner: Any


class OneProjection(Layer):
    """Attention of parts of one projection.

    five: that in an axis of three and into heads.  lifted: that in an axis of three, rows before the batch.
    """

    whole: Projection
    q: Part
    k: Part
    v: Part
    five: Tensor = ABSENT
    lifted: Tensor = ABSENT


def linear(g: Graph, x: Tensor, m: Projection) -> Tensor:
    """x @ w, perhaps + b, perhaps as a Gemm of the rows of all batches, w perhaps transposed."""
    product = g.matmul(x, m.w)
    m.flat = g.shared(reshaped(g, x))
    m.by_turned = g.any_of(g.gemm(m.flat, m.w, m.b, transB=1), g.gemm(m.flat, m.w, transB=1))
    flat = reshaped(g, g.any_of(g.gemm(m.flat, m.w, m.b), g.gemm(m.flat, m.w), m.by_turned))
    m.made = g.any_of(g.add(product, m.b), product, g.add(flat, m.b), flat)
    return m.made


def has_four_axes(spread: Tensor, mask: Tensor) -> None:
    """A mask of four axes is spread to no more."""
    require(mask.rank == 4 and spread.rank in (4, None), "the mask has other axes than batch, head, row, column")


def attend(g: Graph, m: Layer, q: Tensor, k: Tensor, v: Tensor) -> Any:
    """MultiHeadAttention, with or without a bias, or with a mask that is spread to the rows and keys there are.

    The arithmetic for the mask's target may read queries and keys; it goes with them.
    """
    spread = g.such_that(g.expand(m.mask, g.any_tensor()), has_four_axes, m.mask)
    scaled = g.any_of(q, g.mul(q, m.factor))
    forms = (g.ms_multi_head_attention(scaled, k, v, attention_bias=x, **m.attributes) for x in (m.bias, spread))
    return g.any_of(*forms)


def maybe_apart(g: Graph, m: Part, rows: Tensor) -> Tensor:
    """Rows, or the heads that they are split into."""
    m.apart = g.transpose(reshaped(g, rows), perm=HEADS_FIRST)
    return g.any_of(rows, m.apart)


def require_linear(m: Layer, made: Projection, told: str = "projection") -> None:
    """A projection keeps batch and rows of x, also where a Gemm takes them as one axis."""
    require(made.made.shape[:2] == m.x.shape[:2], f"the {told} have other rows than what is projected")
    require(made.inner in (None, m.inner), f"the {told} are made of other rows")


def require_heads(parts: Sequence[Part], heads: int) -> None:
    """Keys and values that come as heads are split into those of the attention, in their order."""
    for part, told in zip(parts[1:], NAMES[1:], strict=True):
        if part.apart is not None:
            wanted = (part.made.shape[0], heads, part.made.shape[1], part.columns // heads)
            require(part.apart.shape == wanted, f"the {told} are not split into the attention's heads")
