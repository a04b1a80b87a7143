"""Products of matrices in one batch axis, whose result has separate axes for batch and heads."""

from surgeon import Captures, Graph, Tensor, dims, rule
from .._common.where_masks import SoftmaxWeights, softmax_weights
from ._merged_batch import with_merged_batch, with_split_batch


class MergedHeadsScores(Captures):
    """Factors with one batch axis, their scaled product, and the result with batch and heads as separate axes."""

    a: Tensor = dims("batch*heads rows _")
    b: Tensor = dims("batch*heads _ columns")
    scale: float | None = None
    y: Tensor = dims("batch heads rows columns")


class MergedHeadsValues(SoftmaxWeights):
    """Weights with batch and heads, the same with these merged, and values that never had separate axes."""

    weights: Tensor = dims("batch heads rows keys")
    merged: Tensor = dims("batch*heads rows keys")
    values: Tensor = dims("batch*heads keys _")


def product(g: Graph, m: MergedHeadsScores) -> Tensor:
    """The product of the factors, optionally scaled."""
    return g.optional(g.mul(g.matmul(m.a, m.b), m.scale))


def parted_scores(g: Graph, m: MergedHeadsScores) -> Tensor:
    """A product of two batches, with several axes before its rows afterwards, as a mask requires."""
    m.y = g.reshaped(product(g, m))
    return m.y


def parted_values(g: Graph, m: MergedHeadsValues) -> Tensor:
    """Values times the weights of a softmax, whose batch axes are merged only for the product."""
    m.weights = softmax_weights(g, m)
    m.merged = g.shared(g.reshaped(m.weights))
    return g.matmul(m.merged, m.values)


@rule(patterns=[parted_scores], target="any")
def merged_heads_scores(g: Graph, m: MergedHeadsScores) -> Tensor:
    """Multiply matrices in a batch of two axes, if their product is split into these axes.

    What: scores of an attention whose heads are part of the batch axis from the start, as in fairseq and FSMT, and are
    split off for a mask.  The factors are reshaped instead of the product.
    Numerics: none.
    """
    ahead = [m.batch, m.heads]
    return product(g, m.but(a=with_split_batch(g, m.a, ahead), b=with_split_batch(g, m.b, ahead)))


@rule(patterns=[parted_values], target="any")
def merged_heads_values(g: Graph, m: MergedHeadsValues) -> Tensor:
    """Multiply weights with batch and heads by values with one batch axis, without merging the axes of the weights.

    What: the second product of such an attention.
    Numerics: none.
    """
    return with_merged_batch(g, g.matmul(softmax_weights(g, m), with_split_batch(g, m.values, [m.batch, m.heads])))
