"""Attention over values whose channels stand before their places, as convolutions make them."""

from typing import Any

from surgeon import Captures, Graph, Tensor, require, rule
from ._conditions import guarded


class Values(Captures):
    """Values of [..., channels, keys], and scores of the keys for each query, whose weights are turned.

    guarded: the weights, if NaN becomes 0.
    """

    values: Tensor
    scores: Tensor
    guarded: Tensor | Any = None
    perm: list[int]


def by_turned_weights(g: Graph, m: Values) -> Tensor:
    """v · softmax(scores)ᵀ, the softmax in a wider dtype if need be."""
    soft = m.guarded = g.softmax(m.scores, axis=-1)
    weights = g.maybe_narrower(g.any_of(guarded(g, m.guarded), soft))
    return g.matmul(m.values, g.transpose(weights, perm=m.perm))


@rule(patterns=[by_turned_weights], target="any")
def channels_first_values(g: Graph, m: Values) -> Tensor:
    """Turn values instead of their weights, where values have their channels before their places.

    What: v · softmax(scores)ᵀ as (softmax(scores) · vᵀ)ᵀ, by which an attention is found: autoencoders of latent
    diffusion (Rombach et al., arXiv:2112.10752), LeViT, EfficientViT, CoAtNet.  The weights, of keys times queries, are
    the larger of the two.
    Numerics: rounding only.
    """
    rank = m.values.rank
    require(rank is not None and rank == len(m.perm), "the values have other axes than the weights")
    require(m.perm == [*range(rank - 2), rank - 1, rank - 2], "more than the last two axes of the weights is turned")
    soft = g.softmax(m.scores, axis=-1)
    weights = g.in_dtype(soft if m.guarded is None else g.nan_to_zero(soft), m.values.dtype)
    return g.transpose(g.matmul(weights, g.transpose(m.values, perm=m.perm)), perm=m.perm)
