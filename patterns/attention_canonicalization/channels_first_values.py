"""Attention over values whose channels stand before their places, as convolutions make them."""

from surgeon import Graph, Tensor, require, rule
from .._common.where_masks import SoftmaxWeights, softmax_weights


class ChannelsFirstValues(SoftmaxWeights):
    """Values of [..., channels, keys], and scores of the keys for each query, whose weights are turned."""

    values: Tensor
    perm: list[int]


def by_turned_weights(g: Graph, m: ChannelsFirstValues) -> Tensor:
    """v · softmax(scores)ᵀ, the softmax in a wider dtype if need be."""
    return g.matmul(m.values, g.transpose(softmax_weights(g, m), perm=m.perm))


@rule(patterns=[by_turned_weights], target="any")
def channels_first_values(g: Graph, m: ChannelsFirstValues) -> Tensor:
    """Turn values instead of their weights, where values have their channels before their places.

    What: v · softmax(scores)ᵀ as (softmax(scores) · vᵀ)ᵀ, by which an attention is found: autoencoders of latent
    diffusion (Rombach et al., arXiv:2112.10752), LeViT, EfficientViT, CoAtNet.  The weights, of keys times queries, are
    the larger of the two.
    Numerics: rounding only.
    """
    rank = m.values.rank
    require(rank is not None and rank == len(m.perm), "the values have other axes than the weights")
    require(m.perm == [*range(rank - 2), rank - 1, rank - 2], "more than the last two axes of the weights is turned")
    return g.transpose(g.matmul(softmax_weights(g, m), g.transpose(m.values, perm=m.perm)), perm=m.perm)
