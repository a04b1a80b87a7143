"""Products of matrices in one batch, of which what is made of it knows two axes: a batch and its heads."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ._batches import parted, with_one_batch
from ._conditions import Weights, weights


class Scores(Captures):
    """Factors of one batch, their product times a number, and that with several axes in the place of the first."""

    a: Tensor = dims("_ _ _")
    b: Tensor = dims("_ _ _")
    scale: float | None = None
    y: Tensor | None = None


class Values(Weights):
    """Weights with several axes before their rows, these as one, and values that have never had them."""

    weights: Tensor
    merged: Tensor = dims("_ _ _")
    values: Tensor = dims("_ _ _")


def product(g: Graph, m: Scores) -> Tensor:
    """The factors' product, perhaps times a number."""
    return g.optional(g.mul(g.matmul(m.a, m.b), m.scale))


def parted_scores(g: Graph, m: Scores) -> Tensor:
    """A product of two batches, which has several axes before its rows for what comes next: a mask of each."""
    m.y = g.reshaped(product(g, m))
    return m.y


def parted_values(g: Graph, m: Values) -> Tensor:
    """Values by the weights of a softmax, whose axes are one for the product alone."""
    m.weights = weights(g, m)
    m.merged = g.shared(g.reshaped(m.weights))
    return g.matmul(m.merged, m.values)


def ahead_of(x: Any, rows: Any, columns: Any, batch: Any) -> list[Any]:
    """The axes of x before the last two, in the place of which one batch stands."""
    require(x.shape is not None and x.rank == 4, "it is not a batch and heads that are one axis")
    require(x.shape[-2:] == (rows, columns), "the rows or columns change too")
    require(x.shape[0] * x.shape[1] == batch, "the batch of the product is another")
    return list(x.shape[:2])


@rule(patterns=[parted_scores], target="any")
def parted_matmul(g: Graph, m: Scores) -> Tensor:
    """Multiply matrices in a batch of two axes where the product has them behind it.

    What: scores of an attention whose heads were part of one batch from the start, as fairseq and FSMT have them; for a
    mask they have an axis of their own.  The factors are reshaped in place of the product.
    Numerics: none.
    """
    ahead = ahead_of(m.y, m.a.shape[1], m.b.shape[2], m.a.shape[0])
    require(m.b.shape[0] == m.a.shape[0], "the factors have other batches")
    return product(g, m.but(a=parted(g, m.a, ahead), b=parted(g, m.b, ahead)))


@rule(patterns=[parted_values], target="any")
def parted_weights(g: Graph, m: Values) -> Tensor:
    """Multiply weights that have a batch and heads with values of one batch, without making the two one first.

    What: the other half of such an attention.
    Numerics: none.
    """
    rows, columns = m.merged.shape[1:]
    ahead = ahead_of(m.weights, rows, columns, m.values.shape[0])
    require(m.merged.shape[0] == m.values.shape[0], "the factors have other batches")
    return with_one_batch(g, g.matmul(weights(g, m), parted(g, m.values, ahead)))
