"""Products of matrices in one batch, of which what is made of it knows two axes: a batch and its heads."""

from typing import Any

from surgeon import Captures, Graph, Tensor, dims, require, rule
from ._batches import parted, with_one_batch


class Scores(Captures):
    """Factors of one batch, their product times a number, and that with several axes in the place of the first."""

    a: Tensor = dims("_ _ _")
    b: Tensor = dims("_ _ _")
    scale: float | None = None
    y: Tensor | None = None


class Values(Captures):
    """Weights with several axes before their rows, these as one, and values that have never had them.

    scores: what the softmax is of.  guarded: its weights, of which none is NaN.  narrow: their dtype, where that is
    another.
    """

    scores: Tensor
    guarded: Tensor | Any = None
    narrow: int | Any = None
    weights: Tensor | Any = None
    merged: Tensor | Any = dims("_ _ _", default=None)
    values: Tensor = dims("_ _ _")


def parted_scores(g: Graph, m: Scores) -> Tensor:
    """A product of two batches, which has several axes before its rows for what comes next: a mask of each."""
    m.y = g.reshaped(g.optional(g.mul(g.matmul(m.a, m.b), m.scale)))
    return m.y


def parted_values(g: Graph, m: Values) -> Tensor:
    """Values by the weights of a softmax, whose axes are one for the product alone."""
    made = g.softmax(m.scores, axis=-1)
    m.guarded = g.nan_to_zero(made)
    m.weights = g.any_of(m.guarded, g.cast(made, to=m.narrow), made)
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
    made = g.matmul(parted(g, m.a, ahead), parted(g, m.b, ahead))
    return made if m.scale is None else g.mul(made, m.scale)


@rule(patterns=[parted_values], target="any")
def parted_weights(g: Graph, m: Values) -> Tensor:
    """Multiply weights that have a batch and heads with values of one batch, without making the two one first.

    What: the other half of such an attention.
    Numerics: none.
    """
    rows, columns = m.merged.shape[1:]
    ahead = ahead_of(m.weights, rows, columns, m.values.shape[0])
    require(m.merged.shape[0] == m.values.shape[0], "the factors have other batches")
    made = g.softmax(m.scores, axis=-1)
    made = made if m.guarded is None else g.nan_to_zero(made)
    made = made if m.narrow is None else g.cast(made, to=m.narrow)
    return with_one_batch(g, g.matmul(made, parted(g, m.values, ahead)))
