"""Attention (Vaswani et al., arXiv:1706.03762): softmax(scale · q·kᵀ + mask)·v, for several heads."""

from patterns._attention import NON_FINITE, fused, has_heads, scores, standard, weighted
from surgeon import Graph, Match, Tensor, rule


def core(
    g: Graph,
    q: Tensor,
    kt: Tensor,
    v: Tensor,
    mask: Tensor,
    second: Tensor,
    left: float,
    right: float,
    scale: float,
    cap: float,
    wide: int,
) -> Tensor:
    """softmax(scale · q·kᵀ + mask)·v."""
    cold = g.maybe_wider(scores(g, q, kt, left, right, scale, cap))
    return weighted(g, g.any_of(g.add(cold, mask, second), g.add(cold, mask), cold), v, wide)


@rule(patterns=[core], conditions=[has_heads], differs={"non_finite": NON_FINITE}, is_pattern=False)
def attention(g: Graph, match: Match) -> Tensor:
    """Fuse the core of an attention into MultiHeadAttention, or Attention from opset 23 on.

    What: softmax(scale · q·kᵀ + mask)·v for q, k, v of [batch, heads, rows, columns].  The scale may stand on q, on k,
    on both or on the product, and the scores may be capped.  Around the node stand the transposes and reshapes that
    its layout wants; the group `cleanup` lets them cancel with what splits and joins heads.
    Numerics: rounding only, for finite numbers.
    """
    return fused(g, match)


@attention.on("onnx", opset=23, is_pattern=False)
def _(g: Graph, match: Match) -> Tensor:
    return standard(g, match)
