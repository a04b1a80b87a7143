"""Products of matrices in one batch, of which what is made of it knows two axes: a batch and its heads."""

from surgeon import Captures, Graph, Tensor, dims, rule
from .._common.where_masks import SoftmaxWeights, softmax_weights
from ._merged_batch import with_merged_batch, with_split_batch


class MergedHeadsScores(Captures):
    """Factors of one batch, their product times a number, and that with a batch and heads in the place of the first."""

    a: Tensor = dims("batch*heads rows _")
    b: Tensor = dims("batch*heads _ columns")
    scale: float | None = None
    y: Tensor = dims("batch heads rows columns")


class MergedHeadsValues(SoftmaxWeights):
    """Weights of a batch and heads, these as one axis, and values that have never had them."""

    weights: Tensor = dims("batch heads rows keys")
    merged: Tensor = dims("batch*heads rows keys")
    values: Tensor = dims("batch*heads keys _")


def product(g: Graph, m: MergedHeadsScores) -> Tensor:
    """The factors' product, perhaps times a number."""
    return g.optional(g.mul(g.matmul(m.a, m.b), m.scale))


def parted_scores(g: Graph, m: MergedHeadsScores) -> Tensor:
    """A product of two batches, which has several axes before its rows for what comes next: a mask of each."""
    m.y = g.reshaped(product(g, m))
    return m.y


def parted_values(g: Graph, m: MergedHeadsValues) -> Tensor:
    """Values by the weights of a softmax, whose batch axes are merged only for the product."""
    m.weights = softmax_weights(g, m)
    m.merged = g.shared(g.reshaped(m.weights))
    return g.matmul(m.merged, m.values)


@rule(patterns=[parted_scores], target="any")
def merged_heads_scores(g: Graph, m: MergedHeadsScores) -> Tensor:
    """Multiply matrices in a batch of two axes where the product has them behind it.

    What: scores of an attention whose heads were part of one batch from the start, as fairseq and FSMT have them; for a
    mask they have an axis of their own.  The factors are reshaped in place of the product.
    Numerics: none.
    """
    ahead = [m.batch, m.heads]
    return product(g, m.but(a=with_split_batch(g, m.a, ahead), b=with_split_batch(g, m.b, ahead)))


@rule(patterns=[parted_values], target="any")
def merged_heads_values(g: Graph, m: MergedHeadsValues) -> Tensor:
    """Multiply weights that have a batch and heads with values of one batch, without making the two one first.

    What: the other half of such an attention.
    Numerics: none.
    """
    return with_merged_batch(g, g.matmul(softmax_weights(g, m), with_split_batch(g, m.values, [m.batch, m.heads])))
