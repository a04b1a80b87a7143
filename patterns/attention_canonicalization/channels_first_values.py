"""Attention over values whose channels precede their positions, as in the output of convolutions."""

from surgeon import Graph, Tensor, require, rule
from .._common.where_masks import SoftmaxWeights, softmax_weights


class ChannelsFirstValues(SoftmaxWeights):
    """Values of [..., channels, keys], and scores of the keys for each query, whose weights are transposed."""

    values: Tensor
    perm: list[int]


def by_turned_weights(g: Graph, m: ChannelsFirstValues) -> Tensor:
    """v · softmax(scores)ᵀ.  The softmax may be in a wider dtype."""
    return g.matmul(m.values, g.transpose(softmax_weights(g, m), perm=m.perm))


@rule(patterns=[by_turned_weights], target="any")
def channels_first_values(g: Graph, m: ChannelsFirstValues) -> Tensor:
    """Transpose the values instead of the weights of an attention, if the channels precede the positions in the values.

    What: v · softmax(scores)ᵀ becomes (softmax(scores) · vᵀ)ᵀ, which the attention rules match: autoencoders of latent
    diffusion (Rombach et al., arXiv:2112.10752), LeViT, EfficientViT, CoAtNet.  The weights have keys times queries
    elements and are larger than the values.
    Numerics: rounding only.
    """
    rank = m.values.rank
    require(rank is not None and rank == len(m.perm), "the values and the weights must have the same rank")
    require(
        m.perm == [*range(rank - 2), rank - 1, rank - 2],
        "the Transpose of the weights must swap only the last two axes",
    )
    return g.transpose(g.matmul(softmax_weights(g, m), g.transpose(m.values, perm=m.perm)), perm=m.perm)
